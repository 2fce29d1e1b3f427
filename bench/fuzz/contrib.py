"""Operators of onnxruntime's own domain: fused and quantized layers, attention, products of packed weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto as T

from bench.fuzz.contrib_schemas import DOMAIN
from bench.fuzz.convolutions import image, window
from bench.fuzz.draft import Draft, Rejected, Value
from bench.fuzz.quantized import scale, zero_point

#: What onnxruntime computes these in, on a CPU.
_REAL = (T.FLOAT, T.FLOAT, T.FLOAT, T.FLOAT16)
_BYTES = (T.UINT8, T.INT8)


def _of(draw: Draft, element: int, *shape: int) -> Value:
    return draw.operand([element], shape=shape, kind="small")


def _rows(draw: Draft, element: int, rank: int | None = None) -> Value:
    return draw.operand([element], rank=rank, kind="small", fits=lambda v: v.rank >= 1 and 0 not in v.shape)


def activation(draw: Draft, operator: str) -> None:
    """Gelu in its variants, alone and behind a bias."""
    data = _rows(draw, T.FLOAT)
    bias = _of(draw, T.FLOAT, data.shape[-1])
    if operator == "BiasGelu" or (operator == "FastGelu" and draw.chance(0.5)):
        draw.emit(operator, [data, bias], domain=DOMAIN)
        return
    alpha = draw.choice([None, 1.0, 0.5]) if operator == "QuickGelu" else None
    draw.emit(operator, [data], domain=DOMAIN, alpha=alpha)


def skip_norm(draw: Draft, operator: str) -> None:
    """A residual sum and its normalization."""
    data = _rows(draw, T.FLOAT, draw.choice([2, 3]))
    skip, width = _of(draw, T.FLOAT, *data.shape), data.shape[-1]
    rest = [_of(draw, T.FLOAT, width)]
    if operator == "SkipLayerNormalization":
        rest.append(_of(draw, T.FLOAT, width))
    if draw.chance(0.5):
        rest.append(_of(draw, T.FLOAT, width))
    wanted = [True, False, False, True] if draw.chance(0.3) else [True]
    draw.emit(operator, [data, skip, *rest], wanted, domain=DOMAIN, epsilon=draw.choice([1e-5, 1e-3]))


def product(draw: Draft, operator: str) -> None:
    """MatMul with transpositions and a factor."""
    left = draw.operand([T.FLOAT], kind="small", fits=lambda v: v.rank >= 2 and 0 not in v.shape)
    first, second = draw.chance(0.4), draw.chance(0.4)
    depth, columns = left.shape[-2] if first else left.shape[-1], draw.integer(1, 9)
    matrix = (columns, depth) if second else (depth, columns)
    right = _of(draw, T.FLOAT, *(left.shape[:-2] if draw.chance(0.3) else ()), *matrix)
    alpha = draw.choice([None, 0.5, 2.0])
    draw.emit(operator, [left, right], domain=DOMAIN, transA=int(first), transB=int(second), alpha=alpha)


def fused_gemm(draw: Draft, operator: str) -> None:
    """Gemm with an activation."""
    left = _rows(draw, T.FLOAT, 2)
    first, second = draw.chance(0.3), draw.chance(0.5)
    depth, columns = left.shape[0 if first else 1], draw.integer(1, 9)
    right = _of(draw, T.FLOAT, *((columns, depth) if second else (depth, columns)))
    bias = _of(draw, T.FLOAT, columns) if draw.chance(0.6) else None
    kind = draw.choice(["Relu", "Sigmoid", "Tanh"])
    draw.emit(operator, [left, right, bias], domain=DOMAIN, transA=int(first), transB=int(second), activation=kind)


def fused_conv(draw: Draft, operator: str) -> None:
    """Conv with an activation, and at times a sum before it."""
    data = image(draw, T.FLOAT, ranks=(4,))
    attributes = window(draw, data.shape[2:], "Conv")
    kernel, outputs = attributes["kernel_shape"], draw.choice([1, 2, 8])
    weight = _of(draw, T.FLOAT, outputs, data.shape[1], *kernel)
    bias = _of(draw, T.FLOAT, outputs) if draw.chance(0.6) else None
    kind = draw.choice(["Relu", "Sigmoid", "Tanh", "LeakyRelu"])
    parameters = [0.1] if kind == "LeakyRelu" else None
    draw.emit(
        operator, [data, weight, bias], domain=DOMAIN, activation=kind, activation_params=parameters, **attributes
    )


def bytes_product(draw: Draft, operator: str) -> None:
    """Products with integer weights that return floats: DynamicQuantizeMatMul, MatMulIntegerToFloat."""
    dynamic = operator == "DynamicQuantizeMatMul"
    element = T.FLOAT if dynamic else draw.choice(_BYTES)
    left = draw.operand([element], kind="small", fits=lambda v: v.rank >= 2 and 0 not in v.shape)
    if dynamic and (not np.isfinite(left.array).all() or np.ptp(left.array) < 1e-2 or np.abs(left.array).max() > 1e4):
        raise Rejected("no scale stands for it")
    columns = draw.integer(1, 9)
    right = draw.leaf(draw.choice(_BYTES), (left.shape[-1], columns))
    along = (columns,) if draw.chance(0.4) else ()
    scales, zeros = scale(draw, along), zero_point(draw, right.element, along) if draw.chance(0.5) else None
    bias = _of(draw, T.FLOAT, columns) if draw.chance(0.5) else None
    if dynamic:
        draw.emit(operator, [left, right, scales, zeros, bias], domain=DOMAIN)
        return
    first = zero_point(draw, left.element) if draw.chance(0.5) else None
    draw.emit(operator, [left, right, scale(draw), scales, first, zeros, bias], domain=DOMAIN)


def packed_product(draw: Draft, operator: str) -> None:
    """MatMulNBits: weights of four or eight bits in blocks, each with a scale."""
    bits, block = draw.choice([4, 4, 8]), draw.choice([16, 32])
    depth, columns = draw.integer(1, 3) * block - draw.choice([0, 0, 5]), draw.integer(1, 9)
    blocks = -(-depth // block)
    left = draw.leaf(T.FLOAT, (draw.integer(1, 4), depth), "small")
    packed = draw.known(_codes(draw, columns, blocks, block * bits // 8), 1.0)
    scales = draw.known(np.abs(_floats(draw, columns, blocks)) + np.float32(0.01), 1.0)
    zeros = draw.known(_codes(draw, columns, -(-blocks * bits // 8)), 1.0) if draw.chance(0.5) else None
    draw.emit(operator, [left, packed, scales, zeros], domain=DOMAIN, K=depth, N=columns, bits=bits, block_size=block)


def _codes(draw: Draft, *shape: int) -> np.ndarray:
    return np.array([draw.integer(0, 255) for _ in range(int(np.prod(shape)))], np.uint8).reshape(shape)


def _floats(draw: Draft, *shape: int) -> np.ndarray:
    return np.array([draw.rng.uniform(-1, 1) for _ in range(int(np.prod(shape)))], np.float32).reshape(shape)


def _coded(draw: Draft, value: Value) -> list[Value]:
    return [value, scale(draw), zero_point(draw, value.element)]


def _result(draw: Draft, element: int) -> list[Value]:
    return [scale(draw), zero_point(draw, element)]


def codes_elementwise(draw: Draft, operator: str) -> None:
    """QLinearAdd, QLinearMul, QLinearSigmoid, QLinearLeakyRelu, QLinearSoftmax."""
    data = draw.operand([draw.choice(_BYTES)], fits=lambda v: v.rank >= 1 and 0 not in v.shape)
    inputs = _coded(draw, data)
    attributes: dict[str, Any] = {"alpha": 0.1} if operator == "QLinearLeakyRelu" else {}
    if operator in ("QLinearAdd", "QLinearMul"):
        inputs += _coded(draw, draw.partner(data))
    if operator == "QLinearSoftmax":
        attributes = {"axis": -1, "opset": 13}
    draw.emit(operator, [*inputs, *_result(draw, data.element)], domain=DOMAIN, **attributes)


def codes_joined(draw: Draft, operator: str) -> None:
    """QLinearConcat of parts with scales of their own."""
    first = draw.operand([draw.choice(_BYTES)], fits=lambda v: v.rank >= 1 and 0 not in v.shape)
    axis = draw.axis(first.rank)
    inputs = [*_result(draw, first.element), *_coded(draw, first)]
    for _ in range(draw.integer(0, 2)):
        shape = list(first.shape)
        shape[axis] = draw.integer(1, 4)
        inputs += _coded(draw, draw.leaf(first.element, tuple(shape)))
    draw.emit(operator, inputs, domain=DOMAIN, axis=axis)


def codes_chosen(draw: Draft, operator: str) -> None:
    """QLinearWhere of two sides with scales of their own."""
    data = draw.operand([draw.choice(_BYTES)], fits=lambda v: v.rank >= 1 and 0 not in v.shape)
    condition = draw.operand([T.BOOL], shape=data.shape)
    other = draw.leaf(data.element, data.shape)
    inputs = [condition, *_coded(draw, data), *_coded(draw, other), *_result(draw, data.element)]
    draw.emit(operator, inputs, domain=DOMAIN)


def codes_pooled(draw: Draft, operator: str) -> None:
    """QLinearAveragePool and QLinearGlobalAveragePool, channels first or last."""
    data = image(draw, draw.choice(_BYTES), ranks=(4,))
    attributes: dict[str, Any] = {}
    if operator == "QLinearAveragePool":
        attributes = window(draw, data.shape[2:], "AveragePool")
        attributes.pop("dilations", None)
        attributes["count_include_pad"] = draw.choice([None, 1])
    draw.emit(operator, [*_coded(draw, data), *_result(draw, data.element)], domain=DOMAIN, **attributes)


def qgemm(draw: Draft, operator: str) -> None:
    """QGemm with codes or floats as its result."""
    left = draw.operand([draw.choice(_BYTES)], rank=2, fits=lambda v: 0 not in v.shape)
    first, second = draw.chance(0.3), draw.chance(0.5)
    depth, columns = left.shape[0 if first else 1], draw.integer(1, 9)
    right = draw.leaf(draw.choice(_BYTES), (columns, depth) if second else (depth, columns))
    bias = draw.leaf(T.INT32, (columns,), "small") if draw.chance(0.5) else None
    result = _result(draw, left.element) if draw.chance(0.5) else []
    inputs = [*_coded(draw, left), *_coded(draw, right), bias, *result]
    draw.emit(operator, inputs, domain=DOMAIN, transA=int(first), transB=int(second), alpha=draw.choice([None, 0.5]))


def heads(draw: Draft, operator: str) -> None:
    """Attention of packed weights, and MultiHeadAttention of queries, keys and values."""
    batch, length, count, width = draw.integer(1, 2), draw.integer(1, 5), draw.choice([1, 2, 4]), draw.choice([2, 4])
    inner = count * width
    causal = draw.choice([None, 1])
    data = draw.leaf(T.FLOAT, (batch, length, inner), "unit")
    if operator == "Attention":
        weight, bias = (draw.known(_floats(draw, *s), 1.0) for s in ((inner, 3 * inner), (3 * inner,)))
        draw.emit(operator, [data, weight, bias], domain=DOMAIN, num_heads=count, unidirectional=causal)
        return
    past = draw.integer(1, 6) if causal is None else length
    keys, values = (draw.leaf(T.FLOAT, (batch, past, inner), "unit") for _ in range(2))
    bias = draw.known(_floats(draw, 3 * inner), 1.0) if draw.chance(0.4) else None
    draw.emit(operator, [data, keys, values, bias], domain=DOMAIN, num_heads=count, unidirectional=causal)


def rotary(draw: Draft, operator: str) -> None:
    """Pairs of numbers turned by the angle of their position."""
    batch, length, count, width = draw.integer(1, 2), draw.integer(1, 5), draw.choice([1, 2]), draw.choice([4, 8])
    data = draw.leaf(T.FLOAT, (batch, count, length, width), "unit")
    cosine, sine = (draw.known(_floats(draw, 8, width // 2), 1.0) for _ in range(2))
    where = draw.known(np.arange(length, dtype=np.int64)[None].repeat(batch, 0), 0.5)
    draw.emit(operator, [data, where, cosine, sine], domain=DOMAIN, interleaved=draw.choice([None, 1]))


def moved(draw: Draft, operator: str) -> None:
    """ExpandDims, Trilu and Range as they were before ONNX had them."""
    if operator == "Range":
        start, step = draw.integer(-3, 3), draw.choice([1, 2, -1])
        stop = start + step * draw.integer(1, 6)
        draw.emit(operator, [draw.known(np.array(n, np.float32)) for n in (start, stop, step)], domain=DOMAIN)
        return
    data = draw.operand([T.FLOAT], fits=lambda v: v.rank >= 2 and 0 not in v.shape)
    if operator == "ExpandDims":
        draw.emit(operator, [data, draw.known(np.array(draw.axis(data.rank), np.int32), 1.0)], domain=DOMAIN)
        return
    draw.emit(operator, [data, draw.known(np.array(draw.integer(-2, 2)))], domain=DOMAIN, upper=draw.choice([0, 1]))


FAMILY: dict[str, Callable[[Draft, str], None]] = {
    **dict.fromkeys(("Gelu", "BiasGelu", "FastGelu", "QuickGelu"), activation),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), skip_norm),
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul"), product),
    **dict.fromkeys(("DynamicQuantizeMatMul", "MatMulIntegerToFloat"), bytes_product),
    **dict.fromkeys(("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu"), codes_elementwise),
    **dict.fromkeys(("QLinearAveragePool", "QLinearGlobalAveragePool"), codes_pooled),
    **dict.fromkeys(("Attention", "MultiHeadAttention"), heads),
    **dict.fromkeys(("ExpandDims", "Trilu", "Range"), moved),
    "FusedGemm": fused_gemm, "FusedConv": fused_conv, "MatMulNBits": packed_product, "QGemm": qgemm,
    "QLinearSoftmax": codes_elementwise, "QLinearConcat": codes_joined, "QLinearWhere": codes_chosen,
    "RotaryEmbedding": rotary,
}  # fmt: skip
