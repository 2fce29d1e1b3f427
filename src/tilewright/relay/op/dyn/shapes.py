"""`relay.dyn.*`: operators whose shapes are values at run time. They run on the host; where the shapes turn out to be
constants, `dynamic_to_static` replaces them by the static operators."""

from __future__ import annotations

import typing
from collections.abc import Callable

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import Static, TypeRule
from tilewright.relay.ir.type import Any, TensorType, TupleType, Type
from tilewright.relay.op.common import Types, call, require, tensor
from tilewright.relay.op.dyn import static as to_static
from tilewright.relay.op.host import register_host


def _count(type_: Type) -> int:
    """The number of sizes in a vector of them, which must be known."""
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


def _same_rank(types: Types, _attrs: Attrs) -> Type:
    return unknown(tensor(types[0]).ndim, tensor(types[0]).dtype)


def _other_extent(types: Types, attrs: Attrs) -> Type:
    """The images' own batch and channels, with rows, columns and depth that are not known."""
    data, layout = tensor(types[0]), attrs["layout"]
    require(data.ndim == len(layout), f"{data} has not the dimensions of the layout {layout}")
    return TensorType(
        [Any() if axis in "DHW" else size for axis, size in zip(layout, data.shape, strict=True)], data.dtype
    )


def _sliced(types: Types, _attrs: Attrs) -> Type:
    """Nothing is known of the axes that are sliced, the leading ones; the others stay as they are."""
    data = tensor(types[0])
    begin = tensor(types[1]).shape
    count = begin[0] if begin and isinstance(begin[0], int) else data.ndim
    return TensorType([*[Any() for _ in range(count)], *data.shape[count:]], data.dtype)


def _expanded(types: Types, attrs: Attrs) -> Type:
    return unknown(tensor(types[0]).ndim + attrs["num_newaxis"], tensor(types[0]).dtype)


def _squeezed(types: Types, _attrs: Attrs) -> Type:
    return unknown(tensor(types[0]).ndim - _count(types[1]), tensor(types[0]).dtype)


def _dense_type(types: Types, _attrs: Attrs) -> Type:
    return unknown(_count(types[3]), tensor(types[1]).dtype)


def _register(
    name: str,
    num_inputs: int,
    type_rule: TypeRule,
    static: Static | None = None,
    first_shape: int = 1,
    **attributes: attr.Attribute,
) -> None:
    """Enter `dyn.name`; its arguments from `first_shape` on are shapes, or parts of one."""
    shapes: dict[str, typing.Any] = {} if static is None else {"static": static, "first_shape": first_shape}
    register_host(f"dyn.{name}", num_inputs=num_inputs, type_rule=type_rule, attributes=attributes, **shapes)


_register("reshape", 2, _by_vector(1), to_static.reshape)
_register("broadcast_to", 2, _by_vector(1), to_static.broadcast_to)
_register("expand_dims", 2, _expanded, to_static.expand_dims, num_newaxis=attr.integer(1))
_register("squeeze", 2, _squeezed, to_static.squeeze)
_register("full", 2, _by_vector(1), to_static.full, dtype=attr.dtype(""))
_register("ones", 1, _by_vector(0), to_static.ones, 0, dtype=attr.dtype("float32"))
_register("zeros", 1, _by_vector(0), to_static.zeros, 0, dtype=attr.dtype("float32"))
_register("one_hot", 4, _one_hot_type, to_static.hot, 3, axis=attr.integer(-1), dtype=attr.dtype("float32"))
_register("tile", 2, _tile_type, to_static.tile)
_register("strided_slice", 4, _sliced, to_static.strided_slice, slice_mode=attr.text("end"))
_register(
    "topk",
    2,
    _topk_type,
    to_static.largest,
    axis=attr.integer(-1),
    ret_type=attr.text("both"),
    is_ascend=attr.flag(False),
    dtype=attr.dtype("int32"),
)
_register("nn.pad", 3, _same_rank, to_static.padded, pad_mode=attr.text("constant"))
_register(
    "nn.upsampling",
    3,
    _other_extent,
    layout=attr.text("NCHW"),
    method=attr.text("nearest_neighbor"),
    align_corners=attr.flag(False),
)
_register(
    "nn.upsampling3d",
    4,
    _other_extent,
    layout=attr.text("NCDHW"),
    method=attr.text("nearest_neighbor"),
    coordinate_transformation_mode=attr.text("half_pixel"),
)
_register(
    "image.resize2d",
    2,
    _other_extent,
    layout=attr.text("NCHW"),
    method=attr.text("linear"),
    coordinate_transformation_mode=attr.text("half_pixel"),
    rounding_method=attr.text(""),
    cubic_alpha=attr.number(-0.5),
)
_register("sparse_to_dense", 4, _dense_type)


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
