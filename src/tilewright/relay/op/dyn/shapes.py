"""`relay.dyn.*`: operators whose shapes are values at run time. They run on the host; where the shapes turn out to be
constants, `dynamic_to_static` puts the static operators in their place."""

from __future__ import annotations

import typing
from collections.abc import Callable

from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.type import Any, TensorType, TupleType, Type
from tilewright.relay.op.common import Types, call, require, tensor, tensors
from tilewright.relay.op.host import register_host


def _count(type_: Type) -> int:
    """How many sizes a vector of them holds, which must be known."""
    vector = tensor(type_)
    require(vector.dtype.is_int and vector.ndim <= 1, f"a vector of integers is needed, not {vector}")
    count = vector.shape[0] if vector.ndim else 1
    require(isinstance(count, int), "how many dimensions the result has must be known")
    return int(count)


def unknown(rank: int, dtype: typing.Any) -> TensorType:
    """A tensor of `rank` dimensions none of which is known."""
    return TensorType([Any() for _ in range(rank)], dtype)


def _by_vector(position: int) -> Callable[[Types, Attrs], Type]:
    """The rank of the result is the length of the argument at `position`."""
    return lambda types, attrs: unknown(_count(types[position]), attrs.get("dtype") or tensor(types[0]).dtype)


def _topk_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    values, indices = unknown(data.ndim, data.dtype), unknown(data.ndim, attrs["dtype"])
    return {"both": TupleType([values, indices]), "values": values, "indices": indices}[attrs["ret_type"]]


def _one_hot_type(types: Types, attrs: Attrs) -> Type:
    indices = tensor(types[0])
    at = attrs["axis"] % (indices.ndim + 1)
    return TensorType((*indices.shape[:at], Any(), *indices.shape[at:]), attrs["dtype"])


def _tile_type(types: Types, _attrs: Attrs) -> Type:
    data = tensor(types[0])
    return unknown(max(data.ndim, _count(types[1])), data.dtype)


_RULES: dict[str, tuple[int, Callable[[Types, Attrs], Type]]] = {
    "dyn.reshape": (2, _by_vector(1)),
    "dyn.broadcast_to": (2, _by_vector(1)),
    "dyn.expand_dims": (
        2,
        lambda types, attrs: unknown(tensor(types[0]).ndim + attrs["num_newaxis"], tensor(types[0]).dtype),
    ),
    "dyn.squeeze": (2, lambda types, _attrs: unknown(tensor(types[0]).ndim - _count(types[1]), tensor(types[0]).dtype)),
    "dyn.full": (2, _by_vector(1)),
    "dyn.ones": (1, _by_vector(0)),
    "dyn.zeros": (1, _by_vector(0)),
    "dyn.one_hot": (4, _one_hot_type),
    "dyn.tile": (
        2,
        lambda types, _attrs: unknown(max(tensor(types[0]).ndim, _count(types[1])), tensor(types[0]).dtype),
    ),
    "dyn.strided_slice": (4, lambda types, _attrs: unknown(tensor(types[0]).ndim, tensor(types[0]).dtype)),
    "dyn.topk": (2, _topk_type),
    "dyn.nn.pad": (3, lambda types, _attrs: unknown(tensor(types[0]).ndim, tensor(types[0]).dtype)),
    "dyn.nn.upsampling": (3, lambda types, _attrs: unknown(4, tensors(types)[0].dtype)),
    "dyn.nn.upsampling3d": (4, lambda types, _attrs: unknown(5, tensors(types)[0].dtype)),
    "dyn.image.resize2d": (2, lambda types, _attrs: unknown(4, tensors(types)[0].dtype)),
    "dyn.sparse_to_dense": (4, lambda types, _attrs: unknown(_count(types[3]), tensor(types[1]).dtype)),
}

for _name, (_inputs, _rule) in _RULES.items():
    register_host(_name, num_inputs=_inputs, type_rule=_rule)


def reshape(data: Expr, newshape: Expr) -> Call:
    """`data` under the shape `newshape`; one size may be -1, and 0 keeps the input's size."""
    return call("dyn.reshape", data, newshape)


def broadcast_to(data: Expr, shape: Expr) -> Call:
    """`data` repeated to `shape`."""
    return call("dyn.broadcast_to", data, shape)


def expand_dims(data: Expr, axis: Expr, num_newaxis: int = 1) -> Call:
    """`data` with `num_newaxis` axes of size 1 before the scalar `axis`."""
    return call("dyn.expand_dims", data, axis, num_newaxis=num_newaxis)


def squeeze(data: Expr, axis: Expr) -> Call:
    """`data` without the axes of size 1 in `axis`."""
    return call("dyn.squeeze", data, axis)


def full(fill_value: Expr, shape: Expr, dtype: str = "") -> Call:
    """A tensor of `shape` filled with a scalar."""
    return call("dyn.full", fill_value, shape, dtype=str(dtype))


def ones(shape: Expr, dtype: str = "float32") -> Call:
    """A tensor of `shape` filled with 1."""
    return call("dyn.ones", shape, dtype=str(dtype))


def zeros(shape: Expr, dtype: str = "float32") -> Call:
    """A tensor of `shape` filled with 0."""
    return call("dyn.zeros", shape, dtype=str(dtype))


def one_hot(
    indices: Expr, on_value: Expr, off_value: Expr, depth: Expr, axis: int = -1, dtype: str = "float32"
) -> Call:
    """`on_value` where a new `axis` of `depth` elements equals the index, else `off_value`."""
    return call("dyn.one_hot", indices, on_value, off_value, depth, axis=axis, dtype=str(dtype))


def tile(data: Expr, reps: Expr) -> Call:
    """`data` repeated as a whole."""
    return call("dyn.tile", data, reps)


def strided_slice(data: Expr, begin: Expr, end: Expr, strides: Expr, slice_mode: str = "end") -> Call:
    """Python slicing of the leading axes; with slice_mode "size" `end` holds sizes."""
    return call("dyn.strided_slice", data, begin, end, strides, slice_mode=slice_mode)


def topk(
    data: Expr, k: Expr, axis: int = -1, ret_type: str = "both", is_ascend: bool = False, dtype: str = "int32"
) -> Call:
    """The `k` largest or smallest elements along `axis` and where they are."""
    return call("dyn.topk", data, k, axis=axis, ret_type=ret_type, is_ascend=is_ascend, dtype=str(dtype))


def sparse_to_dense(indices: Expr, values: Expr, default: Expr, shape: Expr) -> Call:
    """A tensor of `shape` with `values` at the coordinates `indices`, else the default."""
    return call("dyn.sparse_to_dense", indices, values, default, shape)


def pad(data: Expr, pad_width: Expr, pad_value: Expr, pad_mode: str = "constant") -> Call:
    """`data` with (before, after) elements added per axis: constant, reflect or edge."""
    return call("dyn.nn.pad", data, pad_width, pad_value, pad_mode=pad_mode)


def upsampling(
    data: Expr,
    scale_h: Expr,
    scale_w: Expr,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> Call:
    """Images made larger by factors."""
    attrs = {"layout": layout, "method": method, "align_corners": align_corners}
    return call("dyn.nn.upsampling", data, scale_h, scale_w, **attrs)


def upsampling3d(
    data: Expr,
    scale_d: Expr,
    scale_h: Expr,
    scale_w: Expr,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> Call:
    """Volumes made larger by factors."""
    attrs = {"layout": layout, "method": method, "coordinate_transformation_mode": coordinate_transformation_mode}
    return call("dyn.nn.upsampling3d", data, scale_d, scale_h, scale_w, **attrs)


def resize2d(
    data: Expr,
    size: Expr,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
) -> Call:
    """Images resized to `size` (height, width)."""
    attrs: dict[str, typing.Any] = {"layout": layout, "method": method, "rounding_method": rounding_method}
    mode = coordinate_transformation_mode
    return call("dyn.image.resize2d", data, size, coordinate_transformation_mode=mode, cubic_alpha=cubic_alpha, **attrs)
