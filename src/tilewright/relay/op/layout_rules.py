"""Layout rules: how each kind of operator runs on activations blocked by channels (NCHW16c instead of NCHW).

A rule is the `layout` of an `Op`; `transform.alter_layout` asks it, in order of evaluation, which layouts the operator
wants given the ones its inputs are in. An input layout is a blocked one or None for plain; a wanted layout may name a
plain one too ("NCHW"), which means the same as None. An operand of fewer than four dimensions is taken as if it had
leading dimensions of extent 1, and one whose channel extent is 1 is wanted in "NCHW1c", which is a mere reshape.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilewright.relay.ir.attributes import complete
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import LayoutChoice, get
from tilewright.relay.ir.type import TensorType
from tilewright.tir.size_hint import size_hint
from tilewright.topi.schedule.workload import Conv2DLayouts, Conv2DWorkload
from tilewright.topi.shapes import conv_output
from tilewright.topi.winograd import find_filters

if TYPE_CHECKING:
    from tilewright.relay.ir.backend import GraphBackend

Layouts = Sequence[str | None]
Types = Sequence[TensorType]

CHANNEL_AXIS = 1
_BLOCKED = re.compile(r"NCHW(\d+)c")


def channel_block(layout: str | None) -> int:
    """The channel block of "NCHW16c"; 0 for a plain layout."""
    match = _BLOCKED.fullmatch(layout or "")
    return int(match.group(1)) if match else 0


def follow_input(attrs: Attrs, layouts: Layouts, types: Types, backend: GraphBackend) -> LayoutChoice | None:
    """Elementwise operators of one input, which run in any layout: relu, clip, cast."""
    if not channel_block(layouts[0]) or layouts[0] is None:
        return None
    return LayoutChoice((layouts[0],), layouts[0], attrs)


def follow_first_input(attrs: Attrs, layouts: Layouts, types: Types, backend: GraphBackend) -> LayoutChoice | None:
    """The same of operators whose other operands have no channels."""
    choice = follow_input(attrs, layouts, types, backend)
    return choice and replace(choice, inputs=(*choice.inputs, *(None for _ in types[1:])))


def follow_broadcast(attrs: Attrs, layouts: Layouts, types: Types, backend: GraphBackend) -> LayoutChoice | None:
    """Broadcasting operators: the largest blocked operand decides, the others are blocked like it."""
    sized = [(size_hint(t.size), layout) for t, layout in zip(types, layouts)]
    blocked = [(size, -i) for i, (size, layout) in enumerate(sized) if channel_block(layout) > 1]
    if not blocked:
        return None
    leader = layouts[-max(blocked)[1]]
    assert leader is not None
    wanted = [_broadcast_operand(t, leader) for t in types]
    if any(layout == "" for layout in wanted):
        return None
    return LayoutChoice(tuple(wanted), leader, attrs)


def _broadcast_operand(type_: TensorType, leader: str) -> str | None:
    """The layout of an operand beside one in `leader`; None for a single number, "" if it cannot be blocked."""
    if type_.size == 1:
        return None
    if type_.ndim > 4:
        return ""
    channels = ((1,) * (4 - type_.ndim) + type_.shape)[CHANNEL_AXIS]
    if channels == 1:
        return "NCHW1c"
    return leader if channels % channel_block(leader) == 0 else ""


def follow_channels(attrs: Attrs, layouts: Layouts, types: Types, backend: GraphBackend) -> LayoutChoice | None:
    """Operators with a vector of one number per channel: bias_add, prelu. The vector becomes [C / block, block]."""
    layout = layouts[0]
    if not channel_block(layout) or layout is None or attrs.axis % 4 != CHANNEL_AXIS:
        return None
    vector = None if types[1].size == 1 else f"C{channel_block(layout)}c"
    return LayoutChoice((layout, vector), layout, attrs.replace(axis=CHANNEL_AXIS))


def conv2d_layout(
    attrs: Attrs, layouts: Layouts, types: Types, backend: GraphBackend
) -> tuple[LayoutChoice, ...] | None:
    """`nn.conv2d` offers what its kernels can do: the backend knows, and knows what each costs.

    The configuration that a cost is of goes with the call, as its attribute "schedule".
    """
    channels = (types[0].shape[1], *types[1].shape[:2])
    if attrs.data_layout != "NCHW" or attrs.kernel_layout != "OIHW" or not all(isinstance(c, int) for c in channels):
        return None
    workload = conv2d_workload(attrs, types)
    arriving, winograd = channel_block(layouts[0]) or None, _may_use_winograd(attrs, types)
    ways = backend.conv2d_layouts(workload, arriving, winograd)
    choices = [_choice(way, workload, attrs, types, backend) for way in ways]
    if not types[0].is_static:
        # Vectors of channels have no remainder at any size of the image; vectors of columns do.
        choices = [choice for choice in choices if channel_block(choice.output)] or choices
    return tuple(choices)


def _may_use_winograd(attrs: Attrs, types: Types) -> bool:
    """True for convolutions of float32, the only ones that Winograd is exact enough for."""
    return types[0].dtype == "float32" and attrs.out_dtype in ("", "float32")


def _choice(
    way: Conv2DLayouts, workload: Conv2DWorkload, attrs: Attrs, types: Types, backend: GraphBackend
) -> LayoutChoice:
    """One way to run an `nn.conv2d` as a choice of its layouts."""
    # What a symbolic image is tiled by is known with its remainders only, when there is a computation.
    chosen = way.config.items_ if way.config is not None and types[0].is_static else ()
    if way.tile_size:
        return _winograd(way, workload, attrs, types, backend, chosen)
    if (way.data, way.kernel, way.out) != ("NCHW", "OIHW", "NCHW"):
        attrs = attrs.replace(data_layout=way.data, kernel_layout=way.kernel, out_layout=way.out)
    if chosen:
        attrs = attrs.replace(schedule=chosen)
    return LayoutChoice((way.data, way.kernel), way.out, attrs, way.cost)


def _winograd(
    way: Conv2DLayouts,
    workload: Conv2DWorkload,
    attrs: Attrs,
    types: Types,
    backend: GraphBackend,
    chosen: tuple[tuple[str, int], ...],
) -> LayoutChoice:
    """Winograd convolution: the constant kernel is transformed at compile time.

    Images of symbolic sizes are taken to have those of their hints; the grid of tiles then has whole groups (`group`).
    """
    window = {"tile_size": way.tile_size, "strides": workload.strides}
    block = channel_block(way.out) or workload.out_channels
    facts: dict[str, Any] = {**window, "padding": attrs.padding, "data_layout": way.data}
    facts |= {"kernel_size": workload.kernel_size, **({"schedule": chosen} if chosen else {})}
    if not types[0].is_static and backend.has_target:
        unknown = (not isinstance(types[0].shape[2], int), not isinstance(types[0].shape[3], int))
        blocked = replace(workload, in_block=channel_block(way.data), out_block=block, tile_size=way.tile_size)
        facts["group"] = backend.tile_group(blocked, unknown)
    convolve = get("nn.contrib_conv2d_winograd_without_weight_transform")
    altered = Attrs(complete(convolve.name, convolve.attributes, facts))

    def rewrite(call: Call, inputs: Sequence[Expr]) -> Call:
        kernel = {**window, "kernel_layout": "OIHW", "block": block}
        transform = get("nn.contrib_conv2d_winograd_weight_transform")
        weight = Call(transform, [inputs[1]], kernel, call.span)
        return Call(convolve, [inputs[0], weight], altered, call.span)

    return LayoutChoice((way.data, "OIHW"), way.out, altered, way.cost, rewrite, constants=(1,))


def dot_conv2d_layout(
    attrs: Attrs, layouts: Layouts, types: Types, backend: GraphBackend
) -> tuple[LayoutChoice, ...] | None:
    """`nn.contrib_conv2d_int8` is blocked on both sides, with the input channels of a dot product innermost in the
    kernel; the backend knows the blocks, and what each costs where there are several.

    Of int16 whose sums are small, by Winograd where that costs less.
    """
    channels = types[0].shape[1], types[1].shape[0]
    if attrs.data_layout != "NCHW" or None in map(backend.channel_block, channels):
        return None
    arriving = channel_block(layouts[0]) or None
    workload = conv2d_workload(attrs, types)
    if attrs.get("small_sums", False) and types[0].is_static:
        for way in backend.conv2d_layouts(workload, arriving, True):
            if find_filters(way.tile_size, workload.kernel_size, workload.strides, integers=True):
                return (_winograd(way, workload, attrs, types, backend, ()),)
    ways = backend.dot_conv2d_layouts(workload, arriving, types[0].dtype.itemsize)
    return tuple(
        LayoutChoice(
            (way.data, way.kernel),
            way.out,
            attrs.replace(data_layout=way.data, kernel_layout=way.kernel, out_layout=way.out),
            way.cost,
        )
        for way in ways
    )


def conv2d_workload(attrs: Attrs, types: Types) -> Conv2DWorkload:
    """The facts of an `nn.conv2d` in NCHW and OIHW; an image of symbolic size is taken to have that of its hint."""
    batch, channels, height, width = (size_hint(extent) for extent in types[0].shape)
    filters, _, kh, kw = (size_hint(extent) for extent in types[1].shape)
    pads, strides, dilation = attrs.padding, attrs.strides, attrs.dilation
    return Conv2DWorkload(
        batch,
        channels,
        filters,
        height,
        width,
        conv_output(height, kh, strides[0], pads[0], pads[2], dilation[0]),
        conv_output(width, kw, strides[1], pads[1], pads[3], dilation[1]),
        kernel_size=(kh, kw),
        strides=(strides[0], strides[1]),
        dilation=(dilation[0], dilation[1]),
        groups=attrs.get("groups", 1),
        joined=attrs.get("joined", 1),
        padded=any(pads),
    )


def conv2d_transpose_layout(attrs: Attrs, layouts: Layouts, types: Types, backend: GraphBackend) -> LayoutChoice | None:
    """`nn.conv2d_transpose` with whole channel blocks on both sides, ungrouped, undilated, its kernel output-first."""
    if (attrs.data_layout, attrs.kernel_layout) != ("NCHW", "OIHW") or tuple(attrs.dilation) != (1, 1):
        return None
    in_block = channel_block(layouts[0]) or backend.channel_block(types[0].shape[1])
    out_block = backend.channel_block(types[1].shape[0])
    if attrs.groups != 1 or in_block is None or out_block is None:
        return None
    data, kernel = f"NCHW{in_block}c", f"OHWI{in_block}i{out_block}o"
    altered = attrs.replace(data_layout=data, kernel_layout=kernel)

    def rewrite(call: Call, inputs: Sequence[Expr]) -> Call:
        orders = {"src_layout": "OIHW", "dst_layout": kernel}
        return Call(
            call.op, [inputs[0], Call(get("layout_transform"), [inputs[1]], orders, call.span)], altered, call.span
        )

    return LayoutChoice((data, "OIHW"), f"NCHW{out_block}c", altered, rewrite=rewrite)


def follow_layout_attr(attrs: Attrs, layouts: Layouts, types: Types, backend: GraphBackend) -> LayoutChoice | None:
    """Operators that work on H and W and name their layout in the attribute `layout`: pooling, resize2d."""
    layout = layouts[0]
    if not channel_block(layout) or layout is None or attrs.layout != "NCHW":
        return None
    return LayoutChoice((layout,), layout, attrs.replace(layout=layout))


def follow_concatenate(attrs: Attrs, layouts: Layouts, types: Types, backend: GraphBackend) -> LayoutChoice | None:
    """`concatenate` of blocked inputs: along channels all take the largest block that divides each one's channels."""
    blocks = [block for layout in layouts if (block := channel_block(layout)) > 1]
    if not blocks or any(t.ndim != 4 for t in types):
        return None
    axis = attrs.axis % 4
    fits = [b for b in sorted(set(blocks) | {8, 4}, reverse=True) if all(t.shape[1] % b == 0 for t in types)]
    usable = [b for b in fits if b <= max(blocks)]
    if not usable:
        return None
    layout = f"NCHW{usable[0]}c"
    return LayoutChoice((layout,) * len(types), layout, attrs.replace(axis=axis))


def follow_split(attrs: Attrs, layouts: Layouts, types: Types, backend: GraphBackend) -> LayoutChoice | None:
    """`split` of a blocked input; along channels only at multiples of the block."""
    layout = layouts[0]
    block = channel_block(layout)
    if not block or layout is None:
        return None
    axis, parts = attrs.axis % 4, attrs.indices_or_sections
    if axis == CHANNEL_AXIS:
        if isinstance(parts, int):
            if types[0].shape[1] // parts % block:
                return None
        elif any(index % block for index in parts):
            return None
        else:
            parts = tuple([index // block for index in parts])
    return LayoutChoice((layout,), layout, attrs.replace(axis=axis, indices_or_sections=parts))


def follow_pad(attrs: Attrs, layouts: Layouts, types: Types, backend: GraphBackend) -> LayoutChoice | None:
    """`nn.pad` of N, H and W; padding of channels needs the plain layout."""
    layout = layouts[0]
    if not channel_block(layout) or layout is None or any(attrs.pad_width[CHANNEL_AXIS]):
        return None
    return LayoutChoice((layout,), layout, attrs.replace(pad_width=(*attrs.pad_width, (0, 0))))


def follow_reduce(attrs: Attrs, layouts: Layouts, types: Types, backend: GraphBackend) -> LayoutChoice | None:
    """`mean`, `sum`, `max`, … over H and W that keep the dimensions, such as a pooling written as a mean."""
    layout = layouts[0]
    axis = attrs.axis
    if not channel_block(layout) or layout is None or axis is None or not attrs.keepdims or attrs.get("exclude"):
        return None
    axes = tuple(sorted(a % 4 for a in (axis if isinstance(axis, tuple) else (axis,))))
    if CHANNEL_AXIS in axes:
        return None
    return LayoutChoice((layout,), layout, attrs.replace(axis=axes))


def follow_strided_slice(attrs: Attrs, layouts: Layouts, types: Types, backend: GraphBackend) -> LayoutChoice | None:
    """`strided_slice` of axes other than the channels, named by the attribute `axes`."""
    layout = layouts[0]
    axes = attrs.get("axes")
    if not channel_block(layout) or layout is None or axes is None:
        return None
    axes = tuple(a % 4 for a in axes)
    return None if CHANNEL_AXIS in axes else LayoutChoice((layout,), layout, attrs.replace(axes=axes))
