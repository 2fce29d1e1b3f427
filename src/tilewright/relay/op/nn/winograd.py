"""3x3 convolution by minimal filtering: the operators that `transform.winograd_conv2d` puts in place of `nn.conv2d`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te, topi
from tilewright.relay.expr import Attrs, Call, Expr
from tilewright.relay.op.common import Types, call, require, require_same_dtype, tensor, tensors, with_attrs
from tilewright.relay.op.registry import OpPattern, register
from tilewright.relay.type import TensorType, Type
from tilewright.topi.layout import parse_layout, transform_shape
from tilewright.topi.reference import winograd as ref
from tilewright.topi.util import four_sided
from tilewright.topi.winograd import TILE_SIZES


def _check_tile_size(attrs: Attrs) -> int:
    size = attrs["tile_size"]
    require(size in TILE_SIZES, f"tile_size={size}; there are {' and '.join(map(str, TILE_SIZES))}")
    return int(size)


# ---------------------------------------------------------------------------------------------- weight transform
def _weight_type(types: Types, attrs: Attrs) -> Type:
    kernel = tensor(types[0])
    outputs, inputs, kh, kw = transform_shape(kernel.shape, attrs["kernel_layout"], "OIHW")
    points, block = _check_tile_size(attrs) + 2, attrs["block"]
    require((kh, kw) == (3, 3), f"the kernel is {kh}x{kw}; only 3x3 kernels have this form")
    require(block >= 1 and outputs % block == 0, f"{outputs} output channels do not divide into blocks of {block}")
    return TensorType((outputs // block, points, points, inputs, block), kernel.dtype)


register(
    "nn.contrib_conv2d_winograd_weight_transform",
    num_inputs=1,
    type_rule=_weight_type,
    compute=with_attrs(topi.nn.conv2d_winograd_weight_transform, "tile_size", "kernel_layout", "block"),
    pattern=OpPattern.OPAQUE,
    reference=lambda attrs, kernel: ref.winograd_weight_transform(
        kernel, attrs["tile_size"], attrs["kernel_layout"], attrs["block"]
    ),
)


def contrib_conv2d_winograd_weight_transform(
    weight: Expr, tile_size: int, kernel_layout: str = "OIHW", block: int = 1
) -> Call:
    """G g G^T of constant 3x3 kernels, [O/block, m+2, m+2, I, block] for `tile_size` m; mostly folded."""
    return call(
        "nn.contrib_conv2d_winograd_weight_transform",
        weight,
        tile_size=tile_size,
        kernel_layout=kernel_layout,
        block=block,
    )


# --------------------------------------------------------------------------------------------------- convolution
def _winograd_type(types: Types, attrs: Attrs) -> Type:
    data, weight = tensors(types)
    require_same_dtype(data, weight)
    require(parse_layout(attrs["data_layout"]).is_blocked, f"data_layout {attrs['data_layout']}; NCHW16c is needed")
    n, c, h, w = transform_shape(data.shape, attrs["data_layout"], "NCHW")
    points, pads = _check_tile_size(attrs) + 2, attrs["padding"]
    require(weight.ndim == 5, f"transformed weights [O/b, {points}, {points}, I, b] are needed, not {weight.shape}")
    outer, rows, columns, inputs, block = weight.shape
    require((rows, columns) == (points, points), f"the weights {weight.shape} are not of tile_size {points - 2}")
    require(inputs == c, f"the weights {weight.shape} take {inputs} channels, the data has {c}")
    oh, ow = h + pads[0] + pads[2] - 2, w + pads[1] + pads[3] - 2
    require(oh > 0 and ow > 0, f"the kernel 3x3 is larger than the padded data {h}x{w}, padding {pads}")
    return TensorType((n, outer, oh, ow, block), data.dtype)


def _winograd_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    return [topi.nn.conv2d_winograd_NCHWc(inputs[0], inputs[1], attrs["padding"], attrs["tile_size"])]


register(
    "nn.contrib_conv2d_winograd_without_weight_transform",
    num_inputs=2,
    type_rule=_winograd_type,
    compute=_winograd_compute,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    reference=lambda attrs, data, weight: ref.conv2d_winograd(
        data, weight, attrs["padding"], attrs["tile_size"], attrs["data_layout"], f"NCHW{weight.shape[-1]}c"
    ),
)


def contrib_conv2d_winograd_without_weight_transform(
    data: Expr, weight: Expr, tile_size: int, padding: int | Sequence[int] = (0, 0), data_layout: str = "NCHW16c"
) -> Call:
    """3x3 convolution of stride 1 of blocked `data` with transformed weights [O/b, m+2, m+2, I, b], blocked by b."""
    return call(
        "nn.contrib_conv2d_winograd_without_weight_transform",
        data,
        weight,
        tile_size=tile_size,
        padding=four_sided(padding),
        data_layout=data_layout,
    )
