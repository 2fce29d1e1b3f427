"""Exact arithmetic of quantized ONNX graphs: each value with a bound on how far float32 may lead from it.

Values are computed in float64, in which products and sums of codes are exact, and carry a sound bound on the error of
float32 arithmetic in any order of summation. Codes of ONNX's QuantizeLinear are exact wherever no rounding of float32
can reach the next one; where scales are powers of two there is no error at all, and ties are ties, which go to even.
Nothing saturates but what ONNX saturates: neither this file nor its oracle calls another engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]

#: Half a unit in the last place of float32, relative, and its smallest number.
HALF_ULP, TINY = 2.0**-24, 2.0**-149
#: Bound on the error of a transcendental function, absolute for results near 1.
FUNCTION = 4e-6


@dataclass(frozen=True)
class Bounded:
    """Elements of `dtype` within `error` of `value`, both float64 of one shape."""

    value: Array
    error: Array
    dtype: str

    @property
    def exact(self) -> bool:
        """True if there is no error anywhere."""
        return not self.error.any()

    def moved(self, function: Callable[[Array], Array]) -> Bounded:
        """The same elements elsewhere."""
        return Bounded(function(self.value), function(self.error), self.dtype)


def known(array: Array) -> Bounded:
    """An array without error."""
    array = np.asarray(array)
    value = array.astype(np.float64)
    return Bounded(value, np.zeros(value.shape), str(array.dtype))


def integers(value: Array, error: Array | float = 0.0, dtype: str = "int32") -> Bounded:
    """Integers, which arithmetic does not round."""
    return Bounded(np.asarray(value, np.float64), np.broadcast_to(error, np.shape(value)).astype(np.float64), dtype)


def real(value: Array, error: Array | float = 0.0) -> Bounded:
    """float32 numbers rounded once more, where they are not exact."""
    value = np.asarray(value, np.float64)
    error = np.broadcast_to(np.asarray(error, np.float64), value.shape)
    inexact = (value.astype(np.float32) != value) | (error > 0)
    return Bounded(value, error + inexact * ((np.abs(value) + error) * HALF_ULP + TINY), "float32")


def unit(value: Array) -> float:
    """The largest power of two of which all elements are multiples."""
    mantissa, exponent = np.frexp(value[value != 0])
    if mantissa.size == 0:
        return 1.0
    whole = (mantissa * 2.0**53).astype(np.int64)
    return float(np.ldexp((whole & -whole).astype(np.float64), exponent - 53).min())


Product = Callable[[Array, Array], Array]


def product(a: Bounded, b: Bounded, of: Product, terms: int, bias: Bounded | None = None) -> Bounded:
    """A sum of `terms` products, such as a convolution, in the type of its operands: int32 for codes."""
    absolute = of(np.abs(a.value), np.abs(b.value))
    value, error = of(a.value, b.value), np.zeros(absolute.shape)
    if not (a.exact and b.exact):
        error = of(a.error, np.abs(b.value)) + of(np.abs(a.value) + a.error, b.error)
    if bias is not None:
        value, absolute, error = value + bias.value, absolute + np.abs(bias.value), error + bias.error
    if a.dtype != "float32":
        return integers(value, error)
    grain = min(unit(a.value) * unit(b.value), unit(bias.value) if bias is not None else 1e30)
    if not error.any() and absolute.max(initial=0.0) <= grain * 2.0**24:
        return Bounded(value, error, "float32")
    return Bounded(value, error + (terms + 4) * HALF_ULP * (absolute + error) + TINY, "float32")


# --------------------------------------------------------------------------------------------------------- codes
def limits(dtype: str) -> tuple[int, int]:
    """The least and the greatest code of an integer type."""
    info = ml_dtypes.iinfo(np.dtype(dtype) if dtype not in ("int4", "uint4") else getattr(ml_dtypes, dtype))
    return int(info.min), int(info.max)


def along(value: Array, axis: int, like: Array, block: int = 0) -> Array:
    """A scale or zero point as it broadcasts: a scalar, a vector along an axis, or blocks along one."""
    if value.size == 1:
        return value.reshape(())
    if value.ndim == 1:
        return value.reshape([-1 if d == axis % like.ndim else 1 for d in range(like.ndim)])
    size = block or -(-like.shape[axis] // value.shape[axis])
    return np.repeat(value, size, axis=axis).take(range(like.shape[axis]), axis=axis)


def quantized(data: Bounded, scale: Array, zero: Array, dtype: str) -> Bounded:
    """Codes of float32: round(data / scale) to even, plus the zero point, saturated."""
    low, high = limits(dtype)
    with np.errstate(over="ignore"):
        once = np.rint(data.value.astype(np.float32) / scale.astype(np.float32)).astype(np.float64)
    quotient = data.value / scale
    reach = data.error / scale + np.abs(quotient) * 2 * HALF_ULP
    ends = [
        np.clip(np.where(data.error > 0, np.rint(quotient + side * reach), once) + zero, low, high)
        for side in (-1.0, 1.0)
    ]
    return Bounded((ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2, dtype)


def dequantized(codes: Bounded, scale: Array, zero: Array) -> Bounded:
    """float32 of codes: (code - zero point) * scale."""
    centred = codes.value - zero
    wide = HALF_ULP * np.abs(centred) * (np.abs(centred) > 2.0**24)
    return real(centred * scale, (codes.error + wide) * scale)


def rescaled(total: Bounded, factor: Array, zero: Array, dtype: str) -> Bounded:
    """Codes of int32 sums that stand for `factor` times themselves; the factor is of a few float32 operations."""
    low, high = limits(dtype)
    value = total.value * factor
    fine = np.log2(np.abs(factor)) % 1 == 0
    reach = np.where(fine & (total.error == 0), 0.0, total.error * factor + np.abs(value) * 6 * HALF_ULP)
    ends = [np.clip(np.rint(value + side * reach) + zero, low, high) for side in (-1.0, 1.0)]
    return Bounded((ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2, dtype)


# ----------------------------------------------------------------------------------------------- windows and products
def conv_function(attributes: Mapping[str, Any], rank: int) -> Product:
    """A convolution of [N, C, …] by [O, C / group, …]; what is padded is 0."""
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    pads, group = attributes.get("pads", [0] * 2 * rank), attributes.get("group", 1)

    def convolve(x: Array, w: Array) -> Array:
        x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])])
        parts = []
        for data, kernel in zip(np.split(x, group, 1), np.split(w, group, 0)):
            spread = [(k - 1) * d + 1 for k, d in zip(kernel.shape[2:], dilations)]
            axes = tuple(range(2, 2 + rank))
            seen = np.lib.stride_tricks.sliding_window_view(data, spread, axis=axes)
            steps = (slice(None), slice(None), *(slice(None, None, s) for s in strides))
            seen = seen[(*steps, *(slice(None, None, d) for d in dilations))]
            sums = np.tensordot(seen, kernel, [[1, *range(2 + rank, 2 + 2 * rank)], [1, *axes]])
            parts.append(np.moveaxis(sums, -1, 1))
        return np.concatenate(parts, 1)

    return convolve


def pooled(data: Bounded, attributes: Mapping[str, Any], mean: bool) -> Bounded:
    """The mean or the largest of each window of [N, C, …]."""
    kernel = attributes["kernel_shape"]
    rank = len(kernel)
    strides, pads = attributes.get("strides", [1] * rank), attributes.get("pads", [0] * 2 * rank)
    axes, widths = tuple(range(2, 2 + rank)), [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])]
    steps = (slice(None), slice(None), *(slice(None, None, s) for s in strides))
    inner = tuple(range(-rank, 0))

    def windows(x: Array, fill: float = 0.0) -> Array:
        padded = np.pad(x, widths, constant_values=fill)
        return np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=axes)[steps]

    if not mean:
        low, high = (windows(data.value + side * data.error, -1e30).max(inner) for side in (-1, 1))
        return Bounded((low + high) / 2, (high - low) / 2, data.dtype)
    ones = windows(np.ones(data.value.shape)).sum(inner)
    count = float(np.prod(kernel)) if attributes.get("count_include_pad", 0) else ones
    return averaged(
        windows(data.value).sum(inner), windows(np.abs(data.value)).sum(inner), windows(data.error).sum(inner), count,
        data.exact and np.abs(data.value).sum() <= unit(data.value) * 2.0**24,
    )  # fmt: skip


def averaged(total: Array, absolute: Array, error: Array, count: Any, exact_sum: bool) -> Bounded:
    """Sums over their count, in float32: the sum may be rounded unless it is exact; the division is rounded once."""
    count = np.broadcast_to(np.asarray(count, np.float64), total.shape)
    summed = error if exact_sum else error + count * HALF_ULP * absolute
    fine = np.log2(count) % 1 == 0  # a product by the inverse is as good as the division
    value = total / count
    return real(value, summed / count + ~fine * 2 * HALF_ULP * np.abs(value))


def matrices(a: Array, b: Array) -> Array:
    """NumPy's product of stacks of matrices."""
    return a @ b


def softmax(data: Bounded, axis: int) -> Bounded:
    """float32 shares of exponentials along an axis."""
    power = np.exp(data.value - data.value.max(axis, keepdims=True))
    share = power / power.sum(axis, keepdims=True)
    spread = np.expm1(2 * data.error.max(axis, keepdims=True)) + FUNCTION
    return Bounded(share, share * spread + 1e-7, "float32")


def function(data: Bounded, of: Callable[[Array], Array], slope: float) -> Bounded:
    """A smooth function of float32 with a bounded derivative."""
    value = of(data.value)
    return Bounded(value, slope * data.error + FUNCTION * np.maximum(1.0, np.abs(value)), "float32")


def monotone(data: Bounded, of: Callable[[Array], Array]) -> Bounded:
    """A function that never falls and does not round, such as a maximum."""
    low, high = of(data.value - data.error), of(data.value + data.error)
    return Bounded((low + high) / 2, (high - low) / 2, data.dtype)


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node by name."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def constants_of(model: onnx.ModelProto) -> dict[str, Bounded]:
    """The constants of a model; those of 4 bits as the integers that they are."""
    found = {}
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        found[tensor.name] = Bounded(array.astype(np.float64), np.zeros(array.shape), str(array.dtype))
    return found


def difference(ours: Array, exact: Bounded) -> str:
    """The defect of a result beside the exact one; empty where it lies within the bound."""
    if ours.shape != exact.value.shape or str(ours.dtype) != exact.dtype:
        return f"{ours.dtype}{list(ours.shape)} instead of {exact.dtype}{list(exact.value.shape)}"
    away = np.abs(ours.astype(np.float64) - exact.value)
    wrong = ~(away <= exact.error)
    if not wrong.any():
        return ""
    where = np.unravel_index(int(np.argmax(np.where(wrong, away - exact.error, -1.0))), away.shape)
    index = [int(i) for i in where]
    return (
        f"{int(wrong.sum())} of {wrong.size} elements, at {index} {ours[where]} instead of "
        f"{exact.value[where]!r} ± {exact.error[where]:.3g}"
    )


def shares(results: Sequence[Bounded]) -> tuple[int, int]:
    """The elements without error, and all."""
    return sum(int((r.error == 0).sum()) for r in results), sum(r.value.size for r in results)
