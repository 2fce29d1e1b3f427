"""Image resizing: nearest neighbour, linear and cubic, with the coordinate conventions of ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.errors import UnsupportedError
from tilewright.runtime.host_ops.resample import TIE
from tilewright.te import Tensor
from tilewright.tir import Expr
from tilewright.tir.size_hint import size_hint
from tilewright.topi import tag
from tilewright.topi.nn.pooling import spatial_axes
from tilewright.topi.reference.resize import axis_scale, integer_step, nearest_indices, symmetric_offset
from tilewright.topi.shapes import larger, simplified
from tilewright.topi.util import clamped, extents


def _f32(value: Any) -> Any:
    return value.astype("float32") if isinstance(value, Expr) else tir.const(value, "float32")


def _scale(size: Any, out: Any, scales: Sequence[float], axis: int) -> Any:
    """The scale of one axis: a number, or a float32 expression of symbolic sizes."""
    if scales or (isinstance(size, int) and isinstance(out, int)):
        return axis_scale(size, out, scales, axis)
    factor = _whole_factor(size, out)
    return float(factor) if factor is not None else _f32(_expr(out)) / _f32(_expr(size))


def _expr(size: Any) -> Any:
    return tir.const(size) if isinstance(size, int) else size


def _whole_factor(size: Any, out: Any) -> int | None:
    """k if `out` is known to be k times `size`, of which one is symbolic."""
    small, large = size_hint(size), size_hint(out)
    factor = large // small
    return factor if factor >= 1 and simplified(size * factor) is simplified(out) else None


#: Sizes that stand for all where one factor holds for a symbolic size.
_SAMPLES = (5, 16)


def source_coordinate(index: Any, size: Any, out: Any, scale: Any, mode: str) -> Any:
    """The input coordinate of output position `index` on an axis of `size` elements, in float32 as in the reference."""
    x = index.astype("float32")
    if mode == "asymmetric":
        return x / _f32(scale)
    if mode == "align_corners":
        if isinstance(out, int) and out <= 1:
            return _f32(0)
        return x * _f32(size - 1) / _f32(larger(1, out - 1))
    if mode == "tf_half_pixel_for_nn":
        return (x + _f32(0.5)) / _f32(scale)
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and not (isinstance(out, int) and out <= 1)):
        return (x + _f32(0.5)) / _f32(scale) - _f32(0.5)
    if mode == "pytorch_half_pixel":
        return _f32(0)
    if mode == "half_pixel_symmetric":
        return _symmetric_offset(size, out, scale) + (x + _f32(0.5)) / _f32(scale) - _f32(0.5)
    raise UnsupportedError(f"resize2d: coordinate_transformation_mode {mode!r} is not known")


def _symmetric_offset(size: Any, out: Any, scale: Any) -> Any:
    """`symmetric_offset` of sizes that may be symbolic."""
    if all(isinstance(value, int | float) for value in (size, out, scale)):
        return _f32(float(symmetric_offset(size, out, scale)))
    wide = _f32(_expr(size))
    return wide / _f32(2) * (_f32(1) - _f32(_expr(out)) / (_f32(scale) * wide))


def _nearest(index: Any, size: Any, out: Any, scale: Any, mode: str, rounding: str) -> Any:
    """The source index of nearest-neighbour resizing: integer arithmetic for whole factors, else rounding."""
    step = _nearest_step(size, out, scale, mode, rounding)
    if step is not None:
        return index * step[0] // step[1]
    x = source_coordinate(index, size, out, scale, mode)
    rounded = {
        "floor": tir.floor,
        "ceil": tir.ceil,
        "round": lambda v: tir.floor(v + _f32(0.5 + TIE)),
        "round_prefer_ceil": lambda v: tir.floor(v + _f32(0.5 + TIE)),
    }.get(rounding, lambda v: tir.ceil(v - _f32(0.5 + TIE)))(x)
    return clamped(rounded.astype("int32"), size)


def _nearest_step(size: Any, out: Any, scale: Any, mode: str, rounding: str) -> tuple[int, int] | None:
    """The (multiplier, divisor) of integer arithmetic for the source index, if there is one for all indices."""
    if isinstance(size, int) and isinstance(out, int):
        return integer_step(nearest_indices(size, out, scale, mode, rounding))
    factor = _whole_factor(size, out)
    if factor is None or scale != factor:
        return None
    steps = {integer_step(nearest_indices(n, n * factor, scale, mode, rounding)) for n in _SAMPLES}
    return steps.pop() if len(steps) == 1 else None


def _cubic_weights(t: Any, alpha: float) -> list[Any]:
    a = alpha

    def number(value: float) -> Any:
        return tir.const(value, t.dtype)

    def far(u: Any) -> Any:
        return ((number(a) * u - number(5 * a)) * u + number(8 * a)) * u - number(4 * a)

    def near(u: Any) -> Any:
        return (number(a + 2) * u - number(a + 3)) * u * u + one

    one = number(1)
    return [far(t + one), near(t), near(one - t), far(one - t + one)]


def _taps(index: Any, size: Any, out: Any, scale: Any, attrs: Any, dtype: str) -> list[tuple[Any, Any]]:
    """(source index, weight) of each tap of linear or cubic interpolation along one axis, weights in `dtype`."""
    zero, one = tir.const(0, dtype), tir.const(1, dtype)
    if size is out or (isinstance(size, int) and size == out and scale == 1):
        return [(index, one)]
    x = source_coordinate(index, size, out, scale, attrs["coordinate_transformation_mode"])
    base = tir.floor(x)
    t, first = (x - base).astype(dtype), base.astype("int32")
    if attrs["method"] == "linear":
        return [(clamped(first, size), one - t), (clamped(first + 1, size), t)]
    weights, positions = _cubic_weights(t, attrs["cubic_alpha"]), [first + k for k in range(-1, 3)]
    if attrs["cubic_exclude"]:
        inside = [tir.all(p >= 0, p < size) for p in positions]
        weights = [tir.select(ok, w, zero) for ok, w in zip(inside, weights)]
        total = weights[0] + weights[1] + weights[2] + weights[3]
        weights = [w / total for w in weights]
    return [(clamped(p, size), w) for p, w in zip(positions, weights)]


def resize2d(x: Tensor, attrs: Any) -> Tensor:
    """`image.resize2d` of `x` with its attributes; linear and cubic go by columns, then by rows.

    Positions are computed in float32 as in onnxruntime, the interpolation in float32, of float64 in float64.
    """
    axes, shape = spatial_axes(attrs["layout"]), extents(x)
    sizes, outs = [shape[a] for a in axes], attrs["size"]
    scales = [_scale(sizes[i], outs[i], attrs["scales"], i) for i in range(2)]
    if attrs["method"] == "nearest_neighbor":
        mode, rounding = attrs["coordinate_transformation_mode"], attrs["rounding_method"]

        def nearest(*indices: Any) -> Any:
            where = list(indices)
            for i, a in enumerate(axes):
                where[a] = _nearest(indices[a], sizes[i], outs[i], scales[i], mode, rounding)
            return x(*where)

        return te.compute(_resized(shape, axes, outs), nearest, name="resize2d", tag=tag.INJECTIVE)

    wide = "float64" if x.dtype == "float64" else "float32"

    def pass_along(source: Tensor, i: int, name: str, tags: str) -> Tensor:
        """One axis interpolated, in `wide` unless it is the last pass."""
        a = axes[i]
        new_shape = [*extents(source)[:a], outs[i], *extents(source)[a + 1 :]]

        def body(*indices: Any) -> Any:
            total: Any = None
            for position, weight in _taps(indices[a], sizes[i], outs[i], scales[i], attrs, wide):
                value = source(*indices[:a], position, *indices[a + 1 :]).astype(wide)
                total = value * weight if total is None else total + value * weight
            return total.astype(x.dtype) if i == 0 else total

        return te.compute(new_shape, body, name=name, tag=tags)

    columns = pass_along(x, 1, "resize2d_columns", tag.RESIZED_COLUMNS)
    return pass_along(columns, 0, "resize2d", tag.INJECTIVE)


def _resized(shape: Sequence[int], axes: Sequence[int], outs: Sequence[int]) -> list[int]:
    new_shape = list(shape)
    for i, a in enumerate(axes):
        new_shape[a] = outs[i]
    return new_shape
