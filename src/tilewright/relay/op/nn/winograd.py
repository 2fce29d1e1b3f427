"""Winograd convolution: the operators that `transform.alter_layout` puts in place of `nn.conv2d`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright import te, topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import work
from tilewright.relay.op.common import (
    Types,
    call,
    divides,
    require,
    require_same_dtype,
    same_dim,
    tensor,
    tensors,
    windows_along,
    with_attrs,
)
from tilewright.tir.dot_product import SUMS
from tilewright.topi.layout import parse_layout, transform_shape
from tilewright.topi.reference import winograd as ref
from tilewright.topi.util import four_sided
from tilewright.topi.winograd import TILE_SIZES, Filter, find_filters


def _filters(attrs: Attrs, kernel_size: Sequence[int], integers: bool) -> tuple[Filter, Filter]:
    """The filters of rows and columns."""
    size, strides = attrs["tile_size"], attrs["strides"]
    require(size in TILE_SIZES, f"tile_size={size}; there are {' and '.join(map(str, TILE_SIZES))}")
    found = find_filters(size, kernel_size, strides, integers)
    given = f"the kernel is {kernel_size[0]}x{kernel_size[1]} at strides {tuple(strides)}, tile_size {size}"
    require(found is not None, f"{given}; 3x3 at strides 1 and 2, 5x5, 1x3, 1x7 and the like have this form")
    assert found is not None
    return found


# ---------------------------------------------------------------------------------------------- weight transform
def _weight_type(types: Types, attrs: Attrs) -> Type:
    kernel = tensor(types[0])
    outputs, inputs, kh, kw = transform_shape(kernel.shape, attrs["kernel_layout"], "OIHW")
    integers = kernel.dtype == "int8"
    (rows, columns), block = _filters(attrs, (kh, kw), integers), attrs["block"]
    require(block >= 1 and divides(outputs, block), f"{outputs} output channels do not divide into blocks of {block}")
    if integers:
        pair = SUMS["int16"][0]
        require(divides(inputs, pair), f"{inputs} input channels of int8 are no pairs")
        return TensorType((outputs // block, rows.points, columns.points, inputs // pair, block, pair), "int16")
    return TensorType((outputs // block, rows.points, columns.points, inputs, block), kernel.dtype)


register(
    "nn.contrib_conv2d_winograd_weight_transform",
    num_inputs=1,
    type_rule=_weight_type,
    compute=with_attrs(topi.nn.conv2d_winograd_weight_transform, "tile_size", "kernel_layout", "block", "strides"),
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, kernel: ref.winograd_weight_transform(
        kernel, attrs["tile_size"], attrs["kernel_layout"], attrs["block"], attrs["strides"]
    ),
    always_folded=True,
    attributes={
        "tile_size": attr.integer(),
        "kernel_layout": attr.text("OIHW"),
        "block": attr.integer(1),
        "strides": attr.per_axis(2, (1, 1)),
    },
)


def contrib_conv2d_winograd_weight_transform(
    weight: Expr, tile_size: int, kernel_layout: str = "OIHW", block: int = 1, strides: Sequence[int] = (1, 1)
) -> Call:
    """G g G^T of constant kernels, [O/block, P, Q, I, block] for the points of `tile_size`; mostly folded.

    Of int8 they are int16, [O/block, P, Q, I/2, block, 2].
    """
    return call(
        "nn.contrib_conv2d_winograd_weight_transform",
        weight,
        tile_size=tile_size,
        kernel_layout=kernel_layout,
        block=block,
        strides=tuple(strides),
    )


# --------------------------------------------------------------------------------------------------- convolution
def _winograd_type(types: Types, attrs: Attrs) -> Type:
    data, weight = tensors(types)
    require_same_dtype(data, weight)
    plain = attrs["data_layout"] == "NCHW"
    blocked = parse_layout(attrs["data_layout"]).is_blocked
    require(plain or blocked, f"data_layout {attrs['data_layout']}; NCHW or one such as NCHW16c is needed")
    n, c, h, w = transform_shape(data.shape, attrs["data_layout"], "NCHW")
    kernel_size = attrs["kernel_size"]
    integers = data.dtype == "int16"
    require(blocked or not integers, f"data of int16 are needed in blocks, not in {attrs['data_layout']}")
    points = tuple([f.points for f in _filters(attrs, kernel_size, integers)])
    wanted = f"[O/b, {points[0]}, {points[1]}, I{'/2' * integers}, b{', 2' * integers}]"
    require(weight.ndim == 5 + integers, f"transformed weights {wanted} are needed, not {weight.shape}")
    outer, rows, columns, inputs, block, *pair = weight.shape
    inputs *= math.prod(pair)
    require((rows, columns) == points, f"the weights {weight.shape} are not of tile_size {attrs['tile_size']}")
    require(same_dim(inputs, c), f"the weights {weight.shape} take {inputs} channels, the data has {c}")
    oh, ow = windows_along((h, w), kernel_size, attrs, (1, 1))
    if plain:
        require(
            outer == 1, f"the weights {weight.shape} are in {outer} blocks of filters; of plain data they are in one"
        )
        return TensorType((n, block, oh, ow), data.dtype)
    return TensorType((n, outer, oh, ow, block), "int32" if integers else data.dtype)


def _winograd_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    data, weight = inputs
    facts = {name: attrs[name] for name in ("padding", "tile_size", "kernel_size", "strides")}
    if attrs["data_layout"] == "NCHW":
        return [topi.nn.conv2d_winograd_nchw(data, weight, **facts)]
    return [topi.nn.conv2d_winograd_NCHWc(data, weight, **facts, group=attrs["group"])]


register(
    "nn.contrib_conv2d_winograd_without_weight_transform",
    num_inputs=2,
    type_rule=_winograd_type,
    compute=_winograd_compute,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    reference=lambda attrs, data, weight: ref.conv2d_winograd(
        data,
        weight,
        attrs["padding"],
        attrs["tile_size"],
        attrs["data_layout"],
        "NCHW" if attrs["data_layout"] == "NCHW" else f"NCHW{weight.shape[4]}c",
        attrs["kernel_size"],
        attrs["strides"],
    ),
    flops=work.winograd,
    attributes={
        "tile_size": attr.integer(),
        "padding": attr.sides(2, (0, 0, 0, 0)),
        "data_layout": attr.text("NCHW16c"),
        "kernel_size": attr.per_axis(2, (3, 3)),
        "strides": attr.per_axis(2, (1, 1)),
        "group": attr.per_axis(2, (1, 1)),
        "schedule": attr.configuration(),
    },
)


def contrib_conv2d_winograd_without_weight_transform(
    data: Expr,
    weight: Expr,
    tile_size: int,
    padding: int | Sequence[int] = (0, 0),
    data_layout: str = "NCHW16c",
    kernel_size: Sequence[int] = (3, 3),
    strides: Sequence[int] = (1, 1),
) -> Call:
    """Convolution of blocked `data` with transformed weights [O/b, P, Q, I, b] (P, Q the points), blocked by b.

    Of plain `data` (NCHW) the weights are one block, [1, P, Q, I, O], and the result is plain. Of int16 they are
    [O/b, P, Q, I/2, b, 2], and the result is int32.
    """
    return call(
        "nn.contrib_conv2d_winograd_without_weight_transform",
        data,
        weight,
        tile_size=tile_size,
        padding=four_sided(padding),
        data_layout=data_layout,
        kernel_size=tuple(kernel_size),
        strides=tuple(strides),
    )
