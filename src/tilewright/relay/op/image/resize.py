"""Image operators."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, Precision, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import following
from tilewright.relay.op.common import Types, call, require, require_positions, tensor
from tilewright.relay.op.layout_rules import follow_layout_attr
from tilewright.topi.layout import transform_shape
from tilewright.topi.reference.resize import COORDINATE_MODES
from tilewright.topi.reference.resize import resize2d as resize_reference
from tilewright.topi.util import pair

_METHODS = ("nearest_neighbor", "linear", "cubic")
_ROUNDINGS = ("", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _resize2d_type(types: Types, attrs: Attrs) -> Type:
    data = tensor(types[0])
    for name, known in (
        ("method", _METHODS),
        ("coordinate_transformation_mode", COORDINATE_MODES),
        ("rounding_method", _ROUNDINGS),
    ):
        require(attrs[name] in known, f"{name}={attrs[name]!r}; known: {', '.join(known)}")
    n, c, *sizes = transform_shape(data.shape, attrs["layout"], "NCHW")
    for size, extent in zip(sizes, attrs["size"]):
        require(extent >= 0, f"the size {attrs['size']} must not be negative")
        require_positions((size,), extent)
    return TensorType(transform_shape((n, c, *attrs["size"]), "NCHW", attrs["layout"]), data.dtype)


register(
    "image.resize2d",
    num_inputs=1,
    type_rule=_resize2d_type,
    compute=lambda attrs, inputs, _out: [topi.image.resize2d(inputs[0], attrs)],
    pattern=OpPattern.INJECTIVE,
    reference=lambda attrs, x: resize_reference(x, attrs),
    layout=follow_layout_attr,
    precision=Precision.FOLLOW,
    costly=True,
    identity_on_same_type=True,
    joins=True,
    spatial_axes=2,
    follows=following.with_layout,
    attributes={
        "size": attr.per_axis(2),
        "layout": attr.text("NCHW"),
        "method": attr.text("linear"),
        "coordinate_transformation_mode": attr.text("half_pixel"),
        "rounding_method": attr.text(""),
        "cubic_alpha": attr.number(-0.5),
        "cubic_exclude": attr.flag(False),
        "scales": attr.tuple_of(attr.number(), ()),
    },
)


def resize2d(
    data: Expr,
    size: int | Sequence[int],
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: bool = False,
    scales: Sequence[float] = (),
) -> Call:
    """`data` resized to `size` (height, width) by `method` nearest_neighbor, linear or cubic.

    `scales` (height, width) are the factors that coordinates are computed with, by default output size / input size;
    ONNX passes them where the sizes are rounded. `rounding_method` (nearest) is round_prefer_floor by default.
    """
    return call(
        "image.resize2d",
        data,
        size=pair(size),
        layout=layout,
        method=method,
        coordinate_transformation_mode=coordinate_transformation_mode,
        rounding_method=rounding_method,
        cubic_alpha=cubic_alpha,
        cubic_exclude=cubic_exclude,
        scales=tuple(scales),
    )
