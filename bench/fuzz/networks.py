"""Products, normalizations, recurrent layers, attention and transforms of signals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto as T

from bench.fuzz.convolutions import REAL, image
from bench.fuzz.draft import Draft, Value


def mat_mul(draw: Draft, operator: str) -> None:
    """MatMul of vectors, matrices and stacks that broadcast."""
    left = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0)
    inner = left.shape[-1]
    shape = draw.choice([(inner,), (inner, draw.integer(1, 9)), (*left.shape[:-2], inner, draw.integer(1, 5))])
    draw.emit(operator, [left, draw.operand([left.element], shape=shape)])


def gemm(draw: Draft, operator: str) -> None:
    """Gemm with each side transposed or not, and a bias that broadcasts."""
    element = draw.element(operator)
    left = draw.operand([element], rank=2)
    turned = [draw.integer(0, 1) for _ in range(2)]
    rows, inner = left.shape[::-1] if turned[0] else left.shape
    columns = draw.integer(1, 9)
    right = draw.operand([element], shape=(columns, inner) if turned[1] else (inner, columns))
    shape = draw.choice([(columns,), (1, columns), (rows, 1), (rows, columns), (), (1,)])
    bias = draw.operand([element], shape=shape) if draw.chance(0.7) or draw.since(operator) < 11 else None
    numbers = {name: draw.choice([1.0, 0.5, 2.0]) for name in ("alpha", "beta") if draw.chance(0.4)}
    if element not in (*REAL, T.BFLOAT16):
        numbers = {}
    draw.emit(operator, [left, right, bias], transA=turned[0], transB=turned[1], **numbers)


def einsum(draw: Draft, operator: str) -> None:
    """Einsum of one operand or two: products, traces, sums, orders, ellipses."""
    single = {"ij->ji": 2, "ij->": 2, "ii->i": 2, "ii": 2, "ijk->ik": 3, "...i->...": 2, "ij": 2, "i->": 1}
    double = {"ij,jk->ik": "ij jk", "ij,ij->ij": "ij ij", "bij,bjk->bik": "bij bjk", "i,j->ij": "i j",
              "ij,kj->ik": "ij kj", "bhid,bhjd->bhij": "bhid bhjd", "ij,j->i": "ij j", "ij,ji": "ij ji"}  # fmt: skip
    element = draw.element(operator)
    equation = draw.choice([*single, *double])
    if equation in single:
        shape = draw.shape(single[equation])
        shape = (shape[0], shape[0]) if equation.startswith("ii") else shape
        draw.emit(operator, [draw.operand([element], shape=shape)], equation=equation)
        return
    sizes = {letter: draw.integer(1, 5) for letter in "ijkbhd"}
    terms = double[equation].split()
    values = [draw.operand([element], shape=tuple(sizes[letter] for letter in term)) for term in terms]
    draw.emit(operator, values, equation=equation)


def det(draw: Draft, operator: str) -> None:
    """Det of stacks of square matrices."""
    side = draw.integer(1, 4)
    shape = (*draw.shape(draw.integer(0, 1)), side, side)
    draw.emit(operator, [draw.operand([draw.element(operator, only=REAL)], shape=shape)])


def channel_norm(draw: Draft, operator: str) -> None:
    """BatchNormalization of inference, InstanceNormalization, GroupNormalization."""
    element = draw.element(operator, only=REAL)
    data = image(draw, element)
    channels = data.shape[1]
    epsilon = draw.choice([None, 1e-3])
    if operator == "GroupNormalization":
        groups = draw.choice(n for n in range(1, channels + 1) if channels % n == 0)
        extent = channels if draw.since(operator) >= 21 else groups
        scale, shift = (draw.leaf(element, (extent,), "small") for _ in range(2))
        draw.emit(operator, [data, scale, shift], num_groups=groups, epsilon=epsilon)
        return
    vectors = [draw.leaf(element, (channels,), "small") for _ in range(2)]
    if operator == "BatchNormalization":
        vectors += [draw.leaf(element, (channels,), "small"), draw.leaf(element, (channels,), "positive")]
    draw.emit(operator, [data, *vectors], epsilon=epsilon)


def layer_norm(draw: Draft, operator: str) -> None:
    """LayerNormalization and RMSNormalization from any axis on."""
    data = draw.operand([draw.element(operator, only=REAL)], fits=lambda v: v.rank > 0 and 0 not in v.shape)
    axis = draw.axis(data.rank) if draw.chance(0.8) else None
    shape = data.shape[-1 if axis is None else axis :]
    scale = draw.leaf(data.element, shape, "small")
    shift = draw.leaf(data.element, shape, "small") if operator == "LayerNormalization" and draw.chance(0.6) else None
    wanted = [True, draw.chance(0.2), draw.chance(0.2)] if operator == "LayerNormalization" else [True]
    draw.emit(operator, [data, scale, shift], wanted, axis=axis, epsilon=draw.choice([None, 1e-3]))


def lrn(draw: Draft, operator: str) -> None:
    """LRN over an odd number of channels."""
    data = image(draw, draw.element(operator, only=(T.FLOAT,)), ranks=(4,))
    draw.emit(operator, [data], size=draw.choice([1, 3, 5]), alpha=0.01, beta=draw.choice([None, 0.5]), bias=1.5)


def mean_variance(draw: Draft, operator: str) -> None:
    """MeanVarianceNormalization over given axes."""
    data = image(draw, draw.element(operator, only=(T.FLOAT,)), ranks=(4,))
    axes = draw.choice([None, [0, 2, 3], [1], [2, 3]])
    exact = data.array.astype(np.float64)
    undefined = bool((exact.std(tuple(axes or [0, 2, 3])) < 1e-5 * np.abs(exact).max(initial=0)).any())
    draw.emit(operator, [data], undefined=undefined, axes=axes)  # of no variance it is 0 / 0


_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(draw: Draft, operator: str) -> None:
    """RNN, GRU and LSTM in either direction, with their optional inputs and outputs missing or not."""
    element = draw.element(operator, only=REAL)
    direction = draw.choice([None, "forward", "reverse", "bidirectional"])
    ways, gates = 2 if direction == "bidirectional" else 1, _GATES[operator]
    steps, batch, width, hidden = (draw.integer(1, n) for n in (4, 3, 5, 5))
    turned = draw.since(operator) >= 14 and draw.chance(0.3)
    data = draw.operand([element], shape=(batch, steps, width) if turned else (steps, batch, width), kind="unit")
    weights = [draw.leaf(element, (ways, gates * hidden, extent), "unit") for extent in (width, hidden)]
    state = (batch, ways, hidden) if turned else (ways, batch, hidden)
    optional: list[Value | None] = [
        draw.leaf(element, (ways, 2 * gates * hidden), "unit") if draw.chance(0.6) else None
    ]
    lengths = np.array([draw.integer(1, steps) for _ in range(batch)], np.int32)
    optional.append(draw.known(lengths, 0.5) if draw.chance(0.3) else None)
    for _ in range(2 if operator == "LSTM" else 1):
        optional.append(draw.leaf(element, state, "unit") if draw.chance(0.5) else None)
    if operator == "LSTM":
        optional.append(draw.leaf(element, (ways, 3 * hidden), "unit") if draw.chance(0.2) else None)
    wanted = [draw.chance(0.7), True, *([draw.chance(0.5)] if operator == "LSTM" else [])]
    attributes: dict[str, Any] = {"layout": 1} if turned else {}
    if draw.chance(0.2):
        attributes["clip"] = 0.5
    if operator == "GRU":
        attributes["linear_before_reset"] = draw.choice([None, 0, 1])
    if operator == "LSTM":
        attributes["input_forget"] = draw.choice([None, None, 0, 1])
    draw.emit(operator, [data, *weights, *optional], wanted, direction=direction, hidden_size=hidden, **attributes)


def attention(draw: Draft, operator: str) -> None:
    """Attention of rank 4, with grouped heads, masks and caches."""
    element = draw.element(operator, only=REAL)
    batch, heads, rows, keys, depth, width = (draw.integer(1, n) for n in (2, 2, 4, 5, 4, 4))
    queries = heads * draw.integer(1, 2)
    query = draw.operand([element], shape=(batch, queries, rows, depth), kind="unit")
    key = draw.operand([element], shape=(batch, heads, keys, depth), kind="unit")
    value = draw.operand([element], shape=(batch, heads, keys, width), kind="unit")
    causal = draw.integer(0, 1)
    past: list[Value | None] = [None, None]
    total = keys
    if draw.chance(0.3):
        before = draw.integer(1, 3)
        total += before
        past = [draw.leaf(element, (batch, heads, before, size), "unit") for size in (depth, width)]
    mask = draw.leaf(element, (rows, total), "unit") if draw.chance(0.4) else None
    wanted = [True, past[0] is not None, past[0] is not None]
    softcap = draw.choice([None, 2.0])
    scale = draw.choice([None, 0.25])
    draw.emit(operator, [query, key, value, mask, *past], wanted, is_causal=causal, softcap=softcap, scale=scale)


def linear_attention(draw: Draft, operator: str) -> None:
    """LinearAttention by each rule, with and without what came before."""
    batch, length, heads, key, value = (draw.integer(1, n) for n in (2, 4, 2, 3, 3))
    parts = [draw.operand([T.FLOAT], shape=(batch, length, heads * n), kind="unit") for n in (key, key, value)]
    rule = draw.choice(["linear", "gated", "delta", "gated_delta"])
    past = draw.leaf(T.FLOAT, (batch, heads, key, value), "unit") if draw.chance(0.5) else None
    decay = draw.leaf(T.FLOAT, (batch, length, heads), "unit") if "gated" in rule else None
    beta = draw.leaf(T.FLOAT, (batch, length, heads), "positive") if "delta" in rule else None
    counts = {"q_num_heads": heads, "kv_num_heads": heads}
    draw.emit(operator, [*parts, past, decay, beta], 2, update_rule=rule, **counts)


def rotary(draw: Draft, operator: str) -> None:
    """RotaryEmbedding of rank 4 with caches by position."""
    element = draw.element(operator, only=REAL)
    batch, heads, rows, half = (draw.integer(1, n) for n in (2, 2, 4, 3))
    data = draw.operand([element], shape=(batch, heads, rows, 2 * half))
    caches = [draw.leaf(element, (rows + 2, half), "unit") for _ in range(2)]
    where = np.array([[draw.integer(0, rows + 1) for _ in range(rows)] for _ in range(batch)], np.int64)
    draw.emit(operator, [data, *caches, draw.known(where, 0.5)], interleaved=draw.integer(0, 1))


def dft(draw: Draft, operator: str) -> None:
    """DFT of real and complex signals, either way, cut or extended."""
    element = draw.element(operator, only=(T.FLOAT, T.DOUBLE))
    inverse = draw.integer(0, 1)
    parts = 2 if inverse else draw.choice([1, 2])
    shape = (draw.integer(1, 2), draw.integer(2, 9), parts)
    data = draw.operand([element], shape=shape, kind="small")
    length = draw.known(np.array(draw.integer(2, 10), np.int64)) if draw.chance(0.4) else None
    onesided = draw.integer(0, 1) if parts == 1 and not inverse else 0
    if draw.since(operator) < 20:
        draw.emit(operator, [data, length], axis=1, inverse=inverse, onesided=onesided)
        return
    axis = draw.known(np.array(draw.choice([1, -2]), np.int64))
    draw.emit(operator, [data, length, axis], inverse=inverse, onesided=onesided)


def stft(draw: Draft, operator: str) -> None:
    """STFT of real signals, with and without a window."""
    element = draw.element(operator, only=(T.FLOAT, T.DOUBLE))
    frame = draw.integer(2, 6)
    data = draw.operand([element], shape=(draw.integer(1, 2), frame + draw.integer(0, 8), 1), kind="small")
    step = draw.known(np.array(draw.integer(1, 4), np.int64), 1.0)
    taper = draw.leaf(element, (frame,), "positive") if draw.chance(0.6) else None
    length = draw.known(np.array(frame, np.int64), 1.0) if taper is None or draw.chance(0.5) else None
    draw.emit(operator, [data, step, taper, length], onesided=draw.integer(0, 1))


def windows(draw: Draft, operator: str) -> None:
    """BlackmanWindow, HammingWindow, HannWindow."""
    size = draw.known(np.array(draw.integer(2, 12), draw.choice([np.int32, np.int64])))
    element = draw.choice([None, T.FLOAT, T.DOUBLE])
    draw.emit(operator, [size], periodic=draw.choice([None, 0, 1]), output_datatype=element)


def mel_weights(draw: Draft, operator: str) -> None:
    """MelWeightMatrix of a small bank."""
    counts = [draw.known(np.array(n, np.int64)) for n in (draw.integer(2, 8), draw.choice([16, 32]), 8000)]
    edges = [draw.known(np.array(n, np.float32)) for n in (0.0, 4000.0)]
    draw.emit(operator, [*counts, *edges])


def random_numbers(draw: Draft, operator: str) -> None:
    """Random operators where chance leaves one answer: no width, no spread, certain or impossible."""
    certain = {"RandomUniform": {"low": 1.5, "high": 1.5}, "RandomNormal": {"mean": 1.5, "scale": 1e-30}}
    if operator == "Bernoulli":
        chances = np.array([float(draw.integer(0, 1)) for _ in range(4)], np.float32)
        draw.emit(operator, [draw.known(chances, 0.5)])
    elif operator.endswith("Like"):
        data = draw.operand([draw.element(operator, only=REAL)])
        draw.emit(operator, [data], **certain[operator.removesuffix("Like")])
    else:
        draw.emit(operator, [], shape=list(draw.shape(draw.integer(1, 3))), **certain[operator])


FAMILY: dict[str, Callable[[Draft, str], None]] = {
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization", "GroupNormalization"), channel_norm),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), layer_norm),
    **dict.fromkeys(_GATES, recurrent),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), windows),
    **dict.fromkeys(
        ("RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike", "Bernoulli"), random_numbers
    ),
    "MatMul": mat_mul, "Gemm": gemm, "Einsum": einsum, "Det": det, "LRN": lrn,
    "MeanVarianceNormalization": mean_variance, "Attention": attention, "LinearAttention": linear_attention,
    "RotaryEmbedding": rotary, "DFT": dft, "STFT": stft, "MelWeightMatrix": mel_weights,
}  # fmt: skip
