"""Relay's builders whose sizes may be values: a shape that is an expression makes the operator of `relay.op.dyn`.

Constants among the sizes stand for their numbers, so the operator made is that of known sizes.
"""

from __future__ import annotations

import functools
import inspect
from operator import attrgetter
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.compat.relay.array_operators import rounding_of
from tilewright.compat.runtime.array import to_numpy
from tilewright.errors import InputError, UnsupportedError
from tilewright.relay import op
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.runtime.tensor import Tensor
from tilewright.support.named import named


def known(value: Any) -> Any:
    """`value` with a constant, or an array, as the Python numbers that it holds; None for what is known at run time."""
    if isinstance(value, relay.Constant):
        return value.data.tolist()
    if isinstance(value, Tensor | np.ndarray):
        return np.asarray(to_numpy(value)).tolist()
    if isinstance(value, list | tuple):
        inner = [known(item) for item in value]
        return None if any(item is None for item in inner) else inner
    return None if isinstance(value, relay.Expr) else value


def expression(value: Any, dtype: str = "int64") -> relay.Expr:
    """`value` as an expression: numbers become a constant, a list with expressions in it a stack of them."""
    if isinstance(value, relay.Expr):
        return value
    numbers = known(value)
    if numbers is not None:
        return relay.Constant(np.array(numbers, dtype))
    return op.stack([op.cast(expression(item, dtype), dtype) for item in value], axis=0)


def _of_sizes(name: str, *sizes: str, dtype: str = "int64") -> Any:
    """Relay's builder of that name; that of `relay.op.dyn` where one of its arguments `sizes` is an expression."""
    own, dynamic = attrgetter(name)(op), attrgetter(name)(op.dyn)
    signature = inspect.signature(own)

    @functools.wraps(own)
    def build(*args: Any, **options: Any) -> relay.Call:
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        given = bound.arguments
        if isinstance(given.get("shape"), int):
            given["shape"] = [given["shape"]]
        values = {size: known(given[size]) for size in sizes if given[size] is not None}
        if None in values.values():
            return dynamic(**given | {size: expression(given[size], dtype) for size in values})
        return own(**given | values)

    return build


reshape, broadcast_to = _of_sizes("reshape", "newshape"), _of_sizes("broadcast_to", "shape")
full, ones, zeros = _of_sizes("full", "shape"), _of_sizes("ones", "shape"), _of_sizes("zeros", "shape")
expand_dims, squeeze = _of_sizes("expand_dims", "axis"), _of_sizes("squeeze", "axis")
one_hot, tile = _of_sizes("one_hot", "depth"), _of_sizes("tile", "reps")
upsampling = _of_sizes("nn.upsampling", "scale_h", "scale_w", dtype="float32")
upsampling3d = _of_sizes("nn.upsampling3d", "scale_d", "scale_h", "scale_w", dtype="float32")


def strided_slice(
    data: relay.Expr, begin: Any, end: Any, strides: Any = None, axes: Any = None, slice_mode: str = "end"
) -> relay.Call:
    """A slice of each of `axes`, or of the leading axes; in the mode "size" `end` has lengths, -1 for all that is left.

    In that mode there are no strides, as in the classic stack.
    """
    if slice_mode not in ("end", "size"):
        raise InputError(f'relay.strided_slice: slice_mode is "end" or "size", not {slice_mode!r}')
    steps = [1] if strides is None else strides
    positions = [known(part) for part in (begin, end, steps)]
    if all(part is not None for part in positions):
        first, last, step = [part if isinstance(part, list) else [part] for part in positions]
        if slice_mode == "size":
            return _sized_slice(data, first, last, axes)
        return op.strided_slice(data, first, last, step if strides is not None else None, axes)
    if axes is not None:
        raise InputError("relay.strided_slice: with begin, end or strides known at run time, `axes` is left out")
    rank = len(positions[0]) if positions[0] is not None else _length(begin if positions[0] is None else end)
    every = relay.Constant(np.ones(rank, "int64")) if strides is None else expression(strides)
    return op.dyn.strided_slice(data, expression(begin), expression(end), every, slice_mode)


def _length(positions: relay.Expr) -> int:
    (size,) = tensor_type_of(positions).shape
    if not isinstance(size, int):
        raise InputError(f"relay.strided_slice: begin and end of {size} axes; their number is known when it is built")
    return size


def _sized_slice(data: relay.Expr, begin: list[int], size: list[int], axes: Any) -> relay.Call:
    which = list(range(len(begin))) if axes is None else list(axes)
    whole = tensor_type_of(data).shape
    ends = []
    for start, length, axis in zip(begin, size, which, strict=True):
        extent = whole[axis]
        if length >= 0:
            ends.append(start + length)
        elif isinstance(extent, int):
            ends.append(extent)
        else:
            ends.append(2**31 - 1)
    return op.strided_slice(data, begin, ends, None, axes)


def sparse_to_dense(
    sparse_indices: relay.Expr, output_shape: Any, sparse_values: relay.Expr, default_value: Any = 0
) -> relay.Call:
    """A tensor of `output_shape` with values at indices, the default elsewhere."""
    sizes = known(output_shape)
    if sizes is None:
        default = _scalar(default_value, sparse_values)
        return op.dyn.sparse_to_dense(sparse_indices, sparse_values, default, expression(output_shape))
    return op.sparse_to_dense(sparse_indices, sizes, sparse_values, default_value)


def _scalar(value: Any, like: relay.Expr) -> relay.Expr:
    if isinstance(value, relay.Expr):
        return value
    return relay.Constant(np.array(value, str(tensor_type_of(like).dtype)))


def pad(data: relay.Expr, pad_width: Any, pad_value: Any = 0, pad_mode: str = "constant") -> relay.Call:
    """`data` with elements before and behind each axis."""
    width, value = known(pad_width), known(pad_value)
    if width is None:
        return op.dyn.nn.pad(data, expression(pad_width), _scalar(pad_value, data), pad_mode)
    return op.nn.pad(data, width, pad_value if value is None else value, pad_mode)


def _resize(rank: int) -> Any:
    own = getattr(op.image, f"resize{rank}d")
    layouts = {1: "NCW", 2: "NCHW", 3: "NCDHW"}

    def build(
        data: relay.Expr,
        size: Any,
        layout: str = layouts[rank],
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "",
        cubic_alpha: float = -0.5,
        cubic_exclude: int = 0,
        out_dtype: str | None = None,
    ) -> relay.Call:
        mode = coordinate_transformation_mode
        more = (layout, method, mode, rounding_of(method, mode, rounding_method), cubic_alpha)
        if out_dtype and out_dtype.startswith("float"):
            data = op.cast(data, out_dtype)  # so that nothing is rounded to the type of the input in between
        sizes = known(size)
        if sizes is not None:
            made = own(data, sizes, *more, bool(cubic_exclude))
        elif rank == 2 and not cubic_exclude:
            made = op.dyn.image.resize2d(data, expression(size), *more)
        else:
            raise InputError(f"relay.image.resize{rank}d: the size is known when it is built, here it is an expression")
        return op.cast(made, out_dtype) if out_dtype else made

    return _with_region(
        build, f"resize{rank}d", f"{own.__doc__ or ''} The result is of `out_dtype`, where one is given."
    )


def _with_region(build: Any, name: str, doc: str) -> Any:
    """`build` that takes `roi` behind the size, as versions after 0.8 have it, and `extrapolation_value`.

    Both are for "tf_crop_and_resize" alone, which is refused: `relay.image.crop_and_resize` cuts out.
    """

    def take(data: relay.Expr, size: Any, *positions: Any, **options: Any) -> relay.Call:
        if positions and not isinstance(positions[0], str):
            positions = positions[1:]
        options.pop("extrapolation_value", None), options.pop("roi", None)
        if "tf_crop_and_resize" in (*positions, options.get("coordinate_transformation_mode")):
            raise UnsupportedError(f"relay.image.{name}: 'tf_crop_and_resize' is relay.image.crop_and_resize here")
        return build(data, size, *positions, **options)

    own = inspect.signature(build)
    more = [
        inspect.Parameter("roi", inspect.Parameter.KEYWORD_ONLY, default=None),
        inspect.Parameter("extrapolation_value", inspect.Parameter.KEYWORD_ONLY, default=0.0),
    ]
    take.__signature__ = own.replace(parameters=[*own.parameters.values(), *more])  # type: ignore[attr-defined]
    return named(take, name, doc)


resize1d, resize2d, resize3d = _resize(1), _resize(2), _resize(3)
