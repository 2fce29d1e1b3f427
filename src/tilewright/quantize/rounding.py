"""Adaptive rounding: codes of weights by which the results of a layer err least, rather than the weights themselves.

The squared error of a channel is (w - q)^T H (w - q), where H are the second moments of what its weights meet. A code
that is rounded the other way makes up for its neighbours: first as if weights behind it stayed floats (Frantar et al.,
"GPTQ", ICLR 2023), then each code in turn, with all others held, until none changes (coordinate descent on what
"AdaRound", Nagel et al., ICML 2020, relaxes). Means are taken out of H: a correction of the bias makes up for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.quantize.calibrate import compiled
from tilewright.quantize.data import Sample
from tilewright.quantize.equalize import data_axis
from tilewright.quantize.layers import Layer
from tilewright.quantize.ranges import WEIGHT_CODES, as_floats
from tilewright.quantize.recipe import Choice
from tilewright.relay.ir.expr import Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.support import trace

Array = np.ndarray[Any, Any]
#: Attributes of a convolution that its windows depend on.
_WINDOW = ("strides", "padding", "dilation", "groups")
#: Windows of a sample that count at most: those of an image are alike, and those of many samples differ.
_WINDOWS = 256
#: Weights of a channel at most: H has the square of it, 256 MB of float32.
_MOST = 8192
#: Codes whose changes are gathered before the others follow: a product of matrices instead of many of vectors.
_BLOCK = 64
#: Rounds over all codes at most; most layers need five.
_ROUNDS = 12
#: The share of the mean of H's diagonal that is added to it, so that it can be inverted.
_DAMPING = 1e-4


@dataclass(frozen=True)
class Moments:
    """Means [groups, depth] and covariances [groups, depth, depth] of the data that the weights of a layer meet."""

    mean: Array
    covariance: Array


def can_adapt(layer: Layer) -> bool:
    """True for a convolution or dense layer whose moments are small enough to keep."""
    return bool(layer.channels) and layer.operator != "nn.conv2d_transpose" and layer.weight[0].size <= _MOST


def moments(
    mod: IRModule,
    layers: Sequence[Layer],
    choices: Mapping[str, Choice],
    samples: Sequence[Sample],
    threads: int | None = None,
) -> dict[str, Moments]:
    """The moments of the data, through its codes, of each layer that can adapt, by name, over `samples`."""
    found = {layer.name: layer for layer in layers if can_adapt(layer)}
    shown = {layer.tensors[0]: layer.operands[0] for layer in found.values()}
    computed = {name: expr for name, expr in shown.items() if not isinstance(expr, Var)}
    model = compiled(mod, list(computed.values()), threads=threads) if computed else None
    alike = {name: _window(layer, choices[name]) for name, layer in found.items()}
    first = {key: found[name] for name, key in reversed(alike.items())}
    sums: dict[Any, list[Any]] = {}
    for number, sample in enumerate(samples):
        trace.progress("moments of data", number, len(samples))
        values = dict(sample)
        if model is not None:
            given = {spec.name: sample[spec.name] for spec in model.inputs}
            values |= zip(computed, map(np.asarray, model.run(given)), strict=True)
        for key, layer in first.items():
            rows = _rows(_through_codes(values[layer.tensors[0]], layer, choices[layer.name]), layer, number)
            parts = rows.shape[1], rows.sum(axis=1, dtype=np.float64), np.matmul(rows.transpose(0, 2, 1), rows)
            sums[key] = [a + b for a, b in zip(sums[key], parts)] if key in sums else list(parts)
    made = {}
    for key, (count, total, square) in sums.items():
        mean = total / count
        made[key] = Moments(mean, (square / count - mean[..., :, None] * mean[..., None, :]).astype(np.float32))
    return {name: made[key] for name, key in alike.items()}


def _through_codes(data: Array, layer: Layer, choice: Choice) -> Array:
    """The data of a layer as its codes stand for it."""
    if choice.factors:
        shape = [-1 if axis == data_axis(layer) else 1 for axis in range(data.ndim)]
        data = data / np.asarray(choice.factors, np.float32).reshape(shape)
    return as_floats(data, choice.codes[0])


def _window(layer: Layer, choice: Choice) -> tuple[Any, ...]:
    """A key for the moments of a layer: its tensor, the codes of it and its windows."""
    attrs = tuple((name, str(layer.call.attrs[name])) for name in _WINDOW if name in layer.call.attrs)
    return layer.tensors[0], choice.codes[0], choice.factors, layer.weight.shape[1:], attrs


def _rows(data: Array, layer: Layer, number: int) -> Array:
    """The data that the weights of each group meet at some positions, float32[groups, positions, depth]."""
    assert isinstance(layer.call.op, Op)
    axes = layer.call.op.spatial_axes
    if not axes:
        rows = data.reshape(1, -1, data.shape[-1])
    else:
        rows = _windows(data, layer, axes)
    step = -(-rows.shape[1] // _WINDOWS)
    return np.ascontiguousarray(rows[:, number % step :: step], np.float32)


def _windows(data: Array, layer: Layer, axes: int) -> Array:
    """The windows of a convolution, [groups, positions, channels of a group x window]."""
    attrs = layer.call.attrs
    kernel, groups = layer.weight.shape[2:], int(attrs["groups"])
    pads = [int(one) for one in attrs["padding"]]
    before, after = (pads, pads) if len(pads) == axes else (pads[:axes], pads[axes:])
    padded = np.pad(data, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    spread = [(size - 1) * int(step) + 1 for size, step in zip(kernel, attrs["dilation"], strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(padded, spread, axis=tuple(range(2, 2 + axes)))
    taken = (slice(None), slice(None), *(slice(None, None, int(one)) for one in attrs["strides"]))
    seen = seen[(*taken, *(slice(None, None, int(one)) for one in attrs["dilation"]))]
    grouped = seen.reshape(len(data), groups, -1, *seen.shape[2:])
    # [batch, groups, channels, positions…, window…]: positions lead
    order = (1, 0, *range(3, 3 + axes), 2, *range(3 + axes, 3 + 2 * axes))
    return grouped.transpose(order).reshape(groups, -1, layer.weight[0].size)


def adapted(weight: Array, scales: Array, known: Moments) -> tuple[Array, Array]:
    """Codes int8 of weights [channels, …], and what is to be added to each channel of the results."""
    flat = weight.reshape(len(weight), -1).astype(np.float64)
    groups = len(known.mean)
    codes = np.empty(flat.shape, np.int8)
    lost = np.empty(len(flat))
    for group, rows in enumerate(np.split(np.arange(len(flat)), groups)):
        square = known.covariance[group].astype(np.float64)
        own = _descended(flat[rows], scales[rows].astype(np.float64)[:, None], square)
        codes[rows] = own
        lost[rows] = (flat[rows] - own * scales[rows, None].astype(np.float64)) @ known.mean[group]
    return codes.reshape(weight.shape), lost


def _descended(weight: Array, scale: Array, square: Array) -> Array:
    """The codes [channels, depth] of one group."""
    most = WEIGHT_CODES[1]
    used = np.diag(square) > 0
    nearest = np.clip(np.rint(weight / scale), -most, most)
    best, least = None, np.inf
    starts = [nearest]
    if used.all():
        starts.append(_compensated(weight, scale, square))
    for codes in starts:
        codes = _improved(weight, scale, square, codes, used)
        left = weight - codes * scale
        error = np.sum((left @ square) * left, axis=1)
        best = codes if best is None else np.where((error < least)[:, None], codes, best)
        least = np.minimum(error, least)
    assert best is not None
    return best


def _compensated(weight: Array, scale: Array, square: Array) -> Array:
    """Codes column by column, the error of each made up for by those that are still floats."""
    damped = square + np.eye(len(square)) * (_DAMPING * np.trace(square) / len(square))
    factor = np.linalg.cholesky(np.linalg.inv(damped)).T
    left, codes = weight.copy(), np.empty_like(weight)
    for begin in range(0, len(square), _BLOCK):
        end = min(begin + _BLOCK, len(square))
        errors = np.empty((len(weight), end - begin))
        for k in range(begin, end):
            codes[:, k] = np.clip(np.rint(left[:, k] / scale[:, 0]), *WEIGHT_CODES)
            errors[:, k - begin] = (left[:, k] - codes[:, k] * scale[:, 0]) / factor[k, k]
            left[:, k:end] -= errors[:, k - begin : k - begin + 1] * factor[k, k:end]
        left[:, end:] -= errors @ factor[begin:end, end:]
    return codes


def _improved(weight: Array, scale: Array, square: Array, codes: Array, used: Array) -> Array:
    """The codes after changes of one at a time that lower the error, until there is none."""
    codes = codes.copy()
    inverse = np.divide(1.0, np.diag(square), where=used, out=np.zeros(len(used)))
    slope = (weight - codes * scale) @ square
    for _ in range(_ROUNDS):
        changed = False
        for begin in range(0, len(square), _BLOCK):
            end = min(begin + _BLOCK, len(square))
            own, steps = slope[:, begin:end].copy(), np.zeros((len(weight), end - begin))
            for k in range(begin, end):
                wanted = codes[:, k] + np.rint(own[:, k - begin] * inverse[k] / scale[:, 0])
                step = (np.clip(wanted, *WEIGHT_CODES) - codes[:, k]) * scale[:, 0]
                steps[:, k - begin] = step
                own -= step[:, None] * square[k, begin:end]
            if steps.any():
                changed = True
                codes[:, begin:end] += np.rint(steps / scale)
                slope -= steps @ square[begin:end]
        if not changed:
            break
    return codes
