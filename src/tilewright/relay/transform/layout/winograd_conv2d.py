"""Minimal filtering for convolutions where the cost model expects it to be faster than the direct kernel.

Before: nn.conv2d(%x, layout_transform(%w, "OIHW", "OIHW16i16o"), data_layout="NCHW16c", kernel_layout="OIHW16i16o")
After:  %u = nn.contrib_conv2d_winograd_weight_transform(%w, tile_size=4, block=16);
        nn.contrib_conv2d_winograd_without_weight_transform(%x, %u, tile_size=4, data_layout="NCHW16c")

It runs after `alter_layout`, on blocked convolutions of constant weights; fold_constant then transforms the weights.
Images of symbolic sizes are taken to have those of their hints; the grid of tiles then has whole groups (`group`).
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.backend import backend_of
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.target import Target
from tilewright.tir.size_hint import size_hint
from tilewright.topi.layout import parse_layout, transform_shape
from tilewright.topi.schedule.workload import Conv2DWorkload
from tilewright.topi.shapes import conv_output


def winograd_conv2d(mod: IRModule, target: Target) -> IRModule:
    """The module with the convolutions rewritten where that costs less; see the module's docstring."""
    conv2d, transform = get("nn.conv2d"), get("nn.contrib_conv2d_winograd_weight_transform")
    convolve = get("nn.contrib_conv2d_winograd_without_weight_transform")

    def convert(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op is not conv2d:
            return None
        workload = _workload(node)
        found = _constant_kernel(node.args[1], node.attrs["kernel_layout"])
        if workload is None or found is None:
            return None
        tile_size = backend_of(target).tile_size(workload)
        if not tile_size:
            return None
        kernel, layout = found
        window = {"tile_size": tile_size, "strides": workload.strides}
        attrs = {**window, "kernel_layout": layout, "block": workload.out_block}
        weight = Call(transform, [kernel], attrs, node.span)
        padding, data_layout = node.attrs["padding"], node.attrs["data_layout"]
        attrs = {**window, "kernel_size": workload.kernel_size, "padding": padding, "data_layout": data_layout}
        data = tensor_type_of(node.args[0])
        if not data.is_static:
            height, width = transform_shape(data.shape, data_layout, "NCHW")[2:]
            unknown = (not isinstance(height, int), not isinstance(width, int))
            attrs["group"] = backend_of(target).tile_group(replace(workload, tile_size=tile_size), unknown)
        return Call(convolve, [node.args[0], weight], attrs, node.span)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, convert))))


def _constant_kernel(weight: Expr, layout: str) -> tuple[Constant, str] | None:
    """The constant kernel behind a layout transform, and the layout it is in."""
    if isinstance(weight, Call) and weight.op is get("layout_transform"):
        layout, weight = weight.attrs["src_layout"], weight.args[0]
    return (weight, layout) if isinstance(weight, Constant) else None


def _workload(call: Call) -> Conv2DWorkload | None:
    """The facts of a blocked, ungrouped and undilated float32 convolution; None for any other."""
    attrs, data, kernel = call.attrs, tensor_type_of(call.args[0]), tensor_type_of(call.args[1])
    data_layout, kernel_layout = parse_layout(attrs["data_layout"]), parse_layout(attrs["kernel_layout"])
    if (
        (tuple(attrs["dilation"]), attrs["groups"]) != ((1, 1), 1)
        or data.dtype != "float32"
        or attrs["out_dtype"] not in ("", "float32")
    ):
        return None
    if (data_layout.primal, kernel_layout.primal) != ("NCHW", "OIHW") or not data_layout.is_blocked:
        return None
    out_block = kernel_layout.block_of("O")
    if attrs["out_layout"] != f"NCHW{out_block}c":
        return None
    channels, height, width = map(size_hint, transform_shape(data.shape, attrs["data_layout"], "NCHW")[1:])
    batch = data.shape[0] if isinstance(data.shape[0], int) else 1
    pads, strides = attrs["padding"], tuple(attrs["strides"])
    kernel_size = kernel.shape[2:4]
    out_height, out_width = (
        conv_output(size, kernel_size[i], strides[i], pads[i], pads[i + 2], 1) for i, size in enumerate((height, width))
    )
    return Conv2DWorkload(
        batch,
        channels,
        kernel.shape[0] * out_block,
        height,
        width,
        out_height,
        out_width,
        data_layout.block_of("C"),
        out_block,
        kernel_size,
        strides,
        padded=any(pads),
    )
