"""Convolution with moved taps, and the correlation of displaced windows."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op.common import (
    Types,
    at_most,
    call,
    require,
    require_same_dtype,
    same_dim,
    same_dims,
    same_types,
    tensors,
    window_attrs,
    windows_along,
)
from tilewright.relay.op.image.checks import images
from tilewright.topi.reference import sample as ref
from tilewright.topi.util import four_sided


# ------------------------------------------------------------------------------------ moved and displaced windows
def _deformable_type(types: Types, attrs: Attrs) -> Type:
    data, offset, weight = tensors(types)
    images(data)
    require_same_dtype(data, offset, weight)
    o, icg, *size = weight.shape
    require(
        same_dim(icg * attrs["groups"], data.shape[1]),
        f"the kernel {weight.shape} does not fit {data.shape[1]} channels",
    )
    out = windows_along(data.shape[2:], size, attrs, attrs["dilation"])
    wanted = (data.shape[0], 2 * attrs["deformable_groups"] * size[0] * size[1], *out)
    require(same_dims(offset.shape, wanted), f"offsets of shape {wanted} are needed, not {offset.shape}")
    return TensorType((data.shape[0], o, *out), data.dtype)


register(
    "nn.deformable_conv2d",
    num_inputs=3,
    type_rule=_deformable_type,
    compute=lambda attrs, inputs, _out: [topi.image.deformable_conv2d(inputs[0], inputs[1], inputs[2], attrs)],
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, data, offset, weight: ref.deformable_conv2d(data, offset, weight, attrs),
    attributes={**attr.window(2), "deformable_groups": attr.integer(1), "groups": attr.integer(1)},
)


def deformable_conv2d(
    data: Expr,
    offset: Expr,
    weight: Expr,
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    deformable_groups: int = 1,
    groups: int = 1,
) -> Call:
    """Convolution whose taps read the data at positions moved by `offset` [N, 2·DG·KH·KW, OH, OW] (y, x of each
    tap).
    """
    return call(
        "nn.deformable_conv2d",
        data,
        offset,
        weight,
        **window_attrs(strides, padding, dilation),
        deformable_groups=deformable_groups,
        groups=groups,
    )


def _correlation_type(types: Types, attrs: Attrs) -> Type:
    a, b = tensors(types)
    images(a)
    require(same_types(a, b), f"two batches of images of one type are needed, not {a} and {b}")
    reach, size = attrs["max_displacement"], attrs["kernel_size"]
    require(size % 2 == 1, f"kernel_size={size}; it must be odd")
    border, side = reach + (size - 1) // 2, 2 * (reach // attrs["stride2"]) + 1
    pads = attrs["padding"]
    out = [-(-(a.shape[2 + i] + pads[i] + pads[i + 2] - 2 * border) // attrs["stride1"]) for i in range(2)]
    require(
        all(at_most(1, extent) for extent in out), f"a displacement of {reach} leaves nothing of the images {a.shape}"
    )
    return TensorType((a.shape[0], side * side, *out), a.dtype)


register(
    "nn.correlation",
    num_inputs=2,
    type_rule=_correlation_type,
    compute=lambda attrs, inputs, _out: [topi.image.correlation(inputs[0], inputs[1], attrs)],
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, a, b: ref.correlation(a, b, attrs),
    attributes={
        "kernel_size": attr.integer(1),
        "max_displacement": attr.integer(1),
        "stride1": attr.integer(1),
        "stride2": attr.integer(1),
        "padding": attr.sides(2, (0, 0, 0, 0)),
        "is_multiply": attr.flag(True),
        "layout": attr.text("NCHW"),
    },
)


def correlation(
    data1: Expr,
    data2: Expr,
    kernel_size: int = 1,
    max_displacement: int = 1,
    stride1: int = 1,
    stride2: int = 1,
    padding: int | Sequence[int] = 0,
    is_multiply: bool = True,
    layout: str = "NCHW",
) -> Call:
    """Mean products (or absolute differences) of windows of two images at every displacement up to the largest."""
    return call(
        "nn.correlation",
        data1,
        data2,
        kernel_size=kernel_size,
        max_displacement=max_displacement,
        stride1=stride1,
        stride2=stride2,
        padding=four_sided(padding),
        is_multiply=is_multiply,
        layout=layout,
    )
