"""Convolutions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.errors import UnsupportedError
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, Precision, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import work
from tilewright.relay.op.common import (
    Types,
    call,
    divides,
    require,
    require_factors,
    same_dim,
    tensors,
    window_attrs,
    windows_along,
)
from tilewright.relay.op.layout_rules import conv2d_layout, conv2d_transpose_layout
from tilewright.relay.op.nn.scaled_weights import scale_outer, scale_transposed
from tilewright.relay.op.operand_types import convolution_operands, transposed_operands
from tilewright.topi.layout import parse_layout, transform_shape
from tilewright.topi.reference import conv as ref
from tilewright.topi.reference.layout import layout_transform
from tilewright.topi.shapes import transpose_output
from tilewright.topi.util import pair


def _check_weights(data: TensorType, kernel: TensorType, channels: int, per_group: int, attrs: Attrs) -> None:
    """Check the attributes and the kernel of a convolution: `per_group` input channels reach one output."""
    require_factors(data, kernel, attrs["out_dtype"])
    groups = attrs["groups"]
    require(groups >= 1 and divides(channels, groups), f"{channels} input channels do not divide into {groups} groups")
    require(
        same_dim(per_group * groups, channels),
        f"the kernel {kernel.shape} takes {per_group} channels in each of {groups} groups, the data has {channels}",
    )


def _check_kernel_attrs(attrs: Attrs, size: Sequence[int], channels: int) -> None:
    given = attrs["kernel_size"]
    require(
        given is None or tuple(given) == tuple(size), f"kernel_size {given} is not that of the kernel, {tuple(size)}"
    )
    given = attrs["channels"]
    require(given is None or same_dim(given, channels), f"channels={given}, but the kernel makes {channels}")


# -------------------------------------------------------------------------------------------------------- conv2d
def _conv2d_type(types: Types, attrs: Attrs) -> Type:
    data, kernel = tensors(types)
    n, c, h, w = transform_shape(data.shape, attrs["data_layout"], "NCHW")
    o, i, kh, kw = transform_shape(kernel.shape, attrs["kernel_layout"], "OIHW")
    _check_weights(data, kernel, c, i, attrs)
    _check_kernel_attrs(attrs, (kh, kw), o)
    require(divides(o, attrs["groups"]), f"{o} output channels do not divide into {attrs['groups']} groups")
    oh, ow = windows_along((h, w), (kh, kw), attrs, attrs["dilation"])
    layout = attrs["out_layout"] or attrs["data_layout"]
    return TensorType(transform_shape((n, o, oh, ow), "NCHW", layout), attrs["out_dtype"] or data.dtype)


def _conv2d_compute(attrs: Attrs, inputs: list[te.Tensor], out_type: Any) -> list[te.Tensor]:
    """Pick the compute by the layouts: plain, blocked, first layer, depthwise."""
    data, kernel = inputs
    data_layout, kernel_layout = parse_layout(attrs["data_layout"]), parse_layout(attrs["kernel_layout"])
    window = (attrs["strides"], attrs["padding"], attrs["dilation"])
    out_dtype, groups, joined = attrs["out_dtype"], attrs["groups"], attrs.get("joined", 1)
    blocks = "".join(letter for letter, block in kernel_layout.axes if block)
    if attrs["data_layout"] == "NCHW" and attrs["kernel_layout"] == "OIHW" and attrs["out_layout"] in ("", "NCHW"):
        if groups > 1 and topi.util.extents(data)[1] == groups:  # what the workload calls depthwise
            return [topi.nn.depthwise_conv2d_nchw(data, kernel, *window, out_dtype)]
        return [topi.nn.conv2d_nchw(data, kernel, *window, groups, out_dtype)]
    layouts = attrs["data_layout"], attrs["kernel_layout"], attrs["out_layout"] or attrs["data_layout"]
    if layouts == ("NHWC", "OHWI", "NHWC") and groups == 1:
        return [topi.nn.conv2d_nhwc(data, kernel, *window, out_dtype)]
    if layouts == ("NHWC", "HWIO", "NHWC") and groups > 1 and _is_depthwise(data, kernel, groups):
        return [topi.nn.depthwise_conv2d_nhwc(data, kernel, *window, out_dtype)]
    if _in_blocks_of_filters(attrs):
        return [topi.nn.conv2d_nhwc_blocks(data, kernel, *window, out_dtype)]
    if data_layout.primal == "NCHW" and kernel_layout.primal == "OIHW":
        depthwise = kernel_layout.blocks["I"] == (1,)
        if blocks == "IO" and depthwise and data_layout.is_blocked and groups > 1:
            return [topi.nn.depthwise_conv2d_NCHWc(data, kernel, *window, out_dtype)]
        if blocks == "IO" and groups == joined == 1 and data_layout.is_blocked:
            return [topi.nn.conv2d_NCHWc(data, kernel, *window, out_dtype)]
        if blocks == "IO" and data_layout.is_blocked and _whole_blocks(data, kernel, groups):
            return [topi.nn.grouped_conv2d_NCHWc(data, kernel, *window, groups, out_dtype, joined)]
        if blocks == "O" and groups == 1 and not data_layout.is_blocked:
            return [topi.nn.conv2d_first_NCHWc(data, kernel, *window, out_dtype)]
    return [_conv2d_by_transform(attrs, data, kernel)]


def has_kernel(attrs: Attrs) -> bool:
    """True if `nn.conv2d` is computed in the layouts of `attrs`: any order of axes, or blocks that fit each other."""
    data, kernel = parse_layout(attrs["data_layout"]), parse_layout(attrs["kernel_layout"])
    out = parse_layout(attrs["out_layout"] or attrs["data_layout"])
    if (not data.is_blocked and not kernel.is_blocked) or _in_blocks_of_filters(attrs):
        return True
    if data.primal != "NCHW" or kernel.primal != "OIHW" or kernel.block_of("O") != out.block_of("C"):
        return False
    blocks = "".join(letter for letter, block in kernel.axes if block)
    if blocks == "O":
        return attrs["groups"] == 1 and not data.is_blocked
    return blocks == "IO" and data.is_blocked and kernel.block_of("I") in (1, data.block_of("C"))


def _in_blocks_of_filters(attrs: Attrs) -> bool:
    """True for images with channels last and filters packed for some of them at a time."""
    kernel = parse_layout(attrs["kernel_layout"])
    last = attrs["data_layout"] == "NHWC" and attrs["out_layout"] in ("", "NHWC") and attrs["groups"] == 1
    return last and kernel.primal == "OHWI" and [letter for letter, block in kernel.axes if block] == ["O"]


def _is_depthwise(data: te.Tensor, kernel: te.Tensor, groups: int) -> bool:
    """True if each channel of an image with channels last has one filter (`kernel` [KH, KW, 1, C])."""
    return bool(topi.util.extents(data)[3] == groups == topi.util.extents(kernel)[3])


def _whole_blocks(data: te.Tensor, kernel: te.Tensor, groups: int) -> bool:
    """True if each group has whole blocks of input and of output channels."""
    inputs, filters = topi.util.extents(data)[1], topi.util.extents(kernel)[0]
    same = topi.util.extents(data)[-1] == topi.util.extents(kernel)[-2]
    return same and inputs % groups == 0 and filters % groups == 0


def _conv2d_by_transform(attrs: Attrs, data: te.Tensor, kernel: te.Tensor) -> te.Tensor:
    """Any other layout (such as NHWC): transformed to NCHW before and back after, in stages of their own."""
    if parse_layout(attrs["data_layout"]).is_blocked or parse_layout(attrs["kernel_layout"]).is_blocked:
        raise UnsupportedError(
            f"nn.conv2d: there is no compute for data {attrs['data_layout']}, kernel {attrs['kernel_layout']} with "
            f"{attrs['groups']} groups; use NCHW and OIHW"
        )
    plain = topi.layout_transform(data, attrs["data_layout"], "NCHW")
    weights = topi.layout_transform(kernel, attrs["kernel_layout"], "OIHW")
    out = topi.nn.conv2d_nchw(
        plain, weights, attrs["strides"], attrs["padding"], attrs["dilation"], attrs["groups"], attrs["out_dtype"]
    )
    return topi.layout_transform(out, "NCHW", attrs["out_layout"] or attrs["data_layout"])


register(
    "nn.conv2d",
    num_inputs=2,
    type_rule=_conv2d_type,
    compute=_conv2d_compute,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    reference=lambda attrs, data, kernel: ref.conv2d(data, kernel, attrs),
    layout=conv2d_layout,
    precision=Precision.ALWAYS,
    flops=work.convolution,
    expected_operands=convolution_operands,
    spatial_axes=2,
    quantized="qnn.conv2d",
    scaled_weights=scale_outer,
    attrs_class="Conv2DAttrs",
    attributes={
        **attr.window(2),
        "groups": attr.integer(1),
        "joined": attr.integer(attr.ABSENT),
        "channels": attr.optional(attr.integer()),
        "kernel_size": attr.optional(attr.per_axis(2)),
        "data_layout": attr.text("NCHW"),
        "kernel_layout": attr.text("OIHW"),
        "out_layout": attr.text(""),
        "out_dtype": attr.dtype(""),
        "schedule": attr.configuration(),
    },
)


def conv2d(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: int | Sequence[int] | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """2-D convolution (cross-correlation); `padding` is one number, (height, width) or (top, left, bottom, right)."""
    return call(
        "nn.conv2d",
        data,
        weight,
        **window_attrs(strides, padding, dilation),
        groups=groups,
        channels=channels,
        kernel_size=None if kernel_size is None else pair(kernel_size),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )


# ---------------------------------------------------------------------------------------------- conv2d_transpose
def _conv2d_transpose_type(types: Types, attrs: Attrs) -> Type:
    data, kernel = tensors(types)
    blocks = _transpose_blocks(attrs)
    plain = "data [N, C, H, W] and kernel [C, O/groups, KH, KW] are needed"
    require((data.ndim, kernel.ndim) == ((5, 6) if blocks else (4, 4)), plain)
    n, c, h, w = transform_shape(data.shape, attrs["data_layout"], "NCHW")
    i, o, kh, kw = transform_shape(kernel.shape, attrs["kernel_layout"], "IOHW")
    require(same_dim(i, c), f"the kernel {kernel.shape} takes {i} channels, the data has {c}")
    _check_weights(data, kernel, c, c // attrs["groups"], attrs)
    _check_kernel_attrs(attrs, (kh, kw), o * attrs["groups"])
    pads, strides, dilation, extra = (attrs[k] for k in ("padding", "strides", "dilation", "output_padding"))
    oh = transpose_output(h, kh, strides[0], pads[0], pads[2], dilation[0], extra[0])
    ow = transpose_output(w, kw, strides[1], pads[1], pads[3], dilation[1], extra[1])
    for extent in (oh, ow):
        require(extent > 0, f"the padding {pads} leaves nothing of the output")
    dtype = attrs["out_dtype"] or data.dtype
    if blocks:
        return TensorType((n, o // blocks[1], oh, ow, blocks[1]), dtype)
    return TensorType(transform_shape((n, o * attrs["groups"], oh, ow), "NCHW", attrs["data_layout"]), dtype)


def _transpose_blocks(attrs: Attrs) -> tuple[int, int] | None:
    """(input block, output block) of the blocked form, None for any order of plain axes; other layouts are refused."""
    layouts = (attrs["data_layout"], attrs["kernel_layout"])
    if (sorted(layouts[0]), sorted(layouts[1])) == (sorted("NCHW"), sorted("IOHW")):
        first = layouts[1].index("I") < layouts[1].index("O")
        require(first or attrs["groups"] == 1, "a grouped transposed convolution takes a kernel with I before O")
        return None
    data, kernel = re.fullmatch(r"NCHW(\d+)c", layouts[0]), re.fullmatch(r"OHWI(\d+)i(\d+)o", layouts[1])
    blocked = data is not None and kernel is not None and data[1] == kernel[1]
    known = "orders of NCHW with orders of IOHW, or NCHW{i}c with OHWI{i}i{o}o are supported"
    require(blocked, f"layouts {layouts}; {known}")
    assert kernel is not None
    return int(kernel[1]), int(kernel[2])


_TRANSPOSE_ATTRS = ("strides", "padding", "dilation", "groups", "output_padding", "out_dtype")


def _conv2d_transpose_compute(attrs: Attrs, inputs: list[te.Tensor], _out: Any) -> list[te.Tensor]:
    data, kernel = inputs
    if _transpose_blocks(attrs):
        blocked = (attrs[name] for name in ("strides", "padding", "output_padding", "out_dtype"))
        return [topi.nn.conv2d_transpose_NCHWc(data, kernel, *blocked)]
    values = {name: attrs[name] for name in _TRANSPOSE_ATTRS}
    layout, native = attrs["data_layout"], attrs["kernel_layout"] in ("IOHW", "OIHW")
    if not native:
        kernel = _in_order(kernel, attrs["kernel_layout"], "IOHW")
    data = _in_order(data, layout, "NCHW")
    out = topi.nn.conv2d_transpose_nchw(
        data, kernel, **values, kernel_layout=attrs["kernel_layout"] if native else "IOHW"
    )
    return [_in_order(out, "NCHW", layout)]


def _in_order(x: te.Tensor, layout: str, wanted: str) -> te.Tensor:
    """`x` with its axes, which are in the order `layout`, in the order `wanted`."""
    return x if layout == wanted else topi.transpose(x, [layout.index(axis) for axis in wanted])


def _conv2d_transpose_reference(attrs: Attrs, data: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    blocks = _transpose_blocks(attrs)
    data = layout_transform(data, attrs["data_layout"], "NCHW")
    kernel = layout_transform(kernel, attrs["kernel_layout"], "IOHW")
    out = ref.conv2d_transpose_nchw(data, kernel, **{name: attrs[name] for name in _TRANSPOSE_ATTRS})
    return layout_transform(out, "NCHW", f"NCHW{blocks[1]}c" if blocks else attrs["data_layout"])


register(
    "nn.conv2d_transpose",
    num_inputs=2,
    type_rule=_conv2d_transpose_type,
    compute=_conv2d_transpose_compute,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    reference=_conv2d_transpose_reference,
    layout=conv2d_transpose_layout,
    precision=Precision.ALWAYS,
    flops=work.transposed_convolution,
    expected_operands=transposed_operands,
    quantized="qnn.conv2d_transpose",
    scaled_weights=scale_transposed,
    attributes={
        **attr.window(2),
        "groups": attr.integer(1),
        "channels": attr.optional(attr.integer()),
        "kernel_size": attr.optional(attr.per_axis(2)),
        "data_layout": attr.text("NCHW"),
        "kernel_layout": attr.text("IOHW"),
        "output_padding": attr.per_axis(2, (0, 0)),
        "out_dtype": attr.dtype(""),
    },
)


def conv2d_transpose(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: int | Sequence[int] | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    output_padding: int | Sequence[int] = (0, 0),
    out_dtype: str = "",
) -> Call:
    """Transposed 2-D convolution of [N, C, H, W] with a kernel [C, O/groups, KH, KW]; `padding` is cut off.

    The layouts name other orders of the axes of data and kernel, such as NHWC and HWOI.
    """
    return call(
        "nn.conv2d_transpose",
        data,
        weight,
        **window_attrs(strides, padding, dilation),
        groups=groups,
        channels=channels,
        kernel_size=None if kernel_size is None else pair(kernel_size),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        output_padding=pair(output_padding),
        out_dtype=out_dtype,
    )
