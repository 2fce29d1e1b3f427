"""The memory layouts in which a convolution or matrix product can run on a CPU, and the cost of each.

Activations are blocked by channels (NCHW16c) in most of a network, so that the innermost loop is one vector of output
channels and every load of an activation is a broadcast of one float; weights are blocked the same way at compile time.
Plain images are read and written where a change of layout would cost more than it gains.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.backend.cpu.schedule.conv2d_cost import copy_cost
from tilewright.backend.cpu.schedule.grouped_conv2d import grouped_blocks
from tilewright.backend.cpu.schedule.product import WORTH_ROUNDING, rounding_cycles
from tilewright.backend.cpu.schedule.registry import REGISTRY
from tilewright.backend.cpu.schedule.tile_cost import multiplies_tiles
from tilewright.backend.cpu.schedule.tiled_conv2d import DotConv2DWorkload
from tilewright.support.dtype import DType
from tilewright.target import Target
from tilewright.tir.dot_product import GROUP
from tilewright.tir.matrix_tiles import ROW_BYTES
from tilewright.topi.nn.conv2d_blocked import copies_borders, is_product
from tilewright.topi.schedule.stages import NARROWEST
from tilewright.topi.schedule.workload import Conv2DLayouts, Conv2DWorkload
from tilewright.topi.winograd import TILE_SIZES

#: Channel blocks in the order of preference: a whole AVX-512 vector, an AVX2 vector, an SSE or NEON vector.
CHANNEL_BLOCKS = (16, 8, 4)

#: Winograd convolution must win by this much: it needs more memory and rounds more.
_MARGIN = 0.99

#: Pixels of an image from which a depthwise convolution of plain data stays plain where costs are not compared.
_PLAIN_DEPTHWISE = 100


def channel_block(channels: int, target: Target | None = None) -> int | None:
    """The widest block that divides `channels` and fits a vector of the target; None if there is none."""
    lanes = 16 if target is None else max(NARROWEST, target.machine.lanes())
    return next((b for b in CHANNEL_BLOCKS if b <= max(lanes, 8) and channels % b == 0), None)


def conv2d_layouts(
    conv: Conv2DWorkload, target: Target | None = None, arriving_block: int | None = None, winograd: bool = True
) -> list[Conv2DLayouts]:
    """The layouts in which `conv`, a workload in plain layouts, can run, the usual ones first: blocked ones before
    plain ones.

    Activations that arrive in blocks (`arriving_block`) are read as they are: a register tile takes any block of the
    input channels. Plain ones can be read as they are too, as those of a first layer of few channels are. Without
    `winograd`, Winograd is left out.
    """
    out_block = channel_block(conv.out_channels, target)
    plain = _plain(conv, target)
    if conv.depthwise:
        return _depthwise_layouts(conv, out_block, plain, target, arriving_block)
    if conv.groups != 1:
        return _grouped_layouts(conv, out_block, plain, target, arriving_block)
    if out_block is None:
        return [plain]
    choices, conv = [], _as_product(conv)
    in_block = arriving_block or channel_block(conv.in_channels, target)
    if in_block is not None:
        blocked = replace(conv, in_block=in_block, out_block=out_block)
        direct = Conv2DLayouts(f"NCHW{in_block}c", f"OIHW{in_block}i{out_block}o", f"NCHW{out_block}c")
        choices += _blocked_ways(blocked, direct, target, winograd)
    if arriving_block is None:
        first = Conv2DLayouts("NCHW", f"OIHW{out_block}o", f"NCHW{out_block}c")
        choices.append(_priced("conv2d_NCHWc", replace(conv, out_block=out_block), first, target))
    return [*choices, plain]


def dot_conv2d_layouts(
    conv: Conv2DWorkload, target: Target | None, arriving_block: int | None, itemsize: int
) -> list[Conv2DLayouts]:
    """The layouts in which `conv`, of bytes or bfloat16 in plain layouts, can run by dot products, the usual one last.

    A row of a matrix register holds 64 bytes of channels, so images are blocked by as many where the target has such
    and the channels allow it; otherwise there is one layout, without a cost.
    """
    group = GROUP // itemsize
    usual = arriving_block or channel_block(conv.in_channels, target), channel_block(conv.out_channels, target)
    if target is None or not multiplies_tiles(itemsize, target):
        pairs = [usual]
    else:
        wide = [_row_block(channels, itemsize) for channels in (conv.in_channels, conv.out_channels)]
        pairs = [(i, o) for i in dict.fromkeys((arriving_block or wide[0], usual[0])) for o in (wide[1], usual[1])]
    found = []
    for in_block, out_block in dict.fromkeys(pairs):
        if in_block is None or out_block is None or in_block % group:
            continue
        kernel = f"OIHW{in_block // group}i{out_block}o{group}i"
        layouts = Conv2DLayouts(f"NCHW{in_block}c", kernel, f"NCHW{out_block}c")
        if target is not None and (len(pairs) > 1 or (itemsize > 1 and target.machine.pair_dot_per_cycle)):
            facts = {**vars(conv), "in_block": in_block, "out_block": out_block}
            priced = _priced("conv2d_dot_NCHWc", DotConv2DWorkload(**facts, itemsize=itemsize), layouts, target)
            layouts = replace(priced, config=None)
        found.append(layouts)
    return found


def gains_by_bfloat16(conv: Conv2DWorkload, target: Target) -> bool:
    """True if `conv`, in plain layouts, is expected to take less time with operands in bfloat16 than in float32.

    The image is rounded in a kernel before it, whose time counts.
    """
    size = DType("bfloat16").itemsize
    plain = min(way.cost for way in conv2d_layouts(conv, target))
    pairs = min((way.cost for way in dot_conv2d_layouts(conv, target, None, size)), default=plain)
    image = conv.batch * conv.in_channels * conv.in_height * conv.in_width
    return pairs + rounding_cycles(image, size, target) < WORTH_ROUNDING * plain


def _row_block(channels: int, itemsize: int) -> int | None:
    """The widest block of channels that divides them and fits a row of a matrix register."""
    widest = ROW_BYTES // itemsize
    return next((block for block in (widest, widest // 2) if channels % block == 0), None)


def _as_product(conv: Conv2DWorkload) -> Conv2DWorkload:
    """`conv` with all pixels as one row where blocked layouts take it for a product."""
    padding = (int(conv.padded),)
    if not is_product((conv.height, conv.width), conv.kernel_size, conv.strides, padding):
        return conv
    pixels = conv.height * conv.width
    return replace(conv, in_height=1, in_width=pixels, height=1, width=pixels)


def _blocked_ways(
    conv: Conv2DWorkload, direct: Conv2DLayouts, target: Target | None, winograd: bool
) -> list[Conv2DLayouts]:
    """Blocked to blocked by Winograd where that costs less than sums over the window, then by these."""
    summed = _priced("conv2d_NCHWc", conv, direct, target)
    if target is None or not winograd or conv.dilation != (1, 1) or min(conv.in_block, conv.out_block) < NARROWEST:
        return [summed]
    ways = [
        _priced("conv2d_winograd_NCHWc", one, replace(direct, tile_size=one.tile_size), target)
        for one in (replace(conv, tile_size=size, padded=False) for size in TILE_SIZES)
        if one.filters is not None
    ]
    best = min(ways, key=lambda way: way.cost, default=summed)
    return [best, summed] if best.cost < _MARGIN * summed.cost else [summed]


def _plain(conv: Conv2DWorkload, target: Target | None) -> Conv2DLayouts:
    """Plain to plain, products with the zeros of joined groups included."""
    layouts = Conv2DLayouts("NCHW", "OIHW", "NCHW")
    if conv.depthwise:
        return _priced("depthwise_conv2d_nchw", conv, layouts, target)
    one_tap = conv.kernel_size == (1, 1) and conv.groups == 1 and not conv.padded
    sampled = replace(conv, padded=conv.padded or conv.strides != (1, 1))
    return _priced("conv2d_1x1_nchw" if one_tap else "conv2d_nchw", sampled, layouts, target)


def _depthwise_layouts(
    conv: Conv2DWorkload, out_block: int | None, plain: Conv2DLayouts, target: Target | None, arriving: int | None
) -> list[Conv2DLayouts]:
    """Without a target to judge by, plain images of many pixels stay plain."""
    if out_block is None or conv.in_channels != conv.out_channels:
        return [plain]
    block, copied = arriving or out_block, copies_borders(conv.kernel_size, conv.strides, (conv.height, conv.width))
    blocked = _priced(
        "depthwise_conv2d_NCHWc",
        replace(conv, in_block=block, out_block=block, padded=conv.padded and copied),
        Conv2DLayouts(f"NCHW{block}c", f"OIHW1i{block}o", f"NCHW{block}c"),
        target,
    )
    if target is None and arriving is None and conv.in_height * conv.in_width >= _PLAIN_DEPTHWISE:
        return [plain, blocked]
    return [blocked, plain]


def _priced(tag: str, conv: Conv2DWorkload, layouts: Conv2DLayouts, target: Target | None) -> Conv2DLayouts:
    """`layouts` with the configuration of the template `tag` that costs least, and its cost."""
    if target is None:
        return layouts
    cost, config = REGISTRY[tag].ranked(conv, target).cheapest
    return replace(layouts, config=config, cost=cost.cycles)


def transform_cost(elements: int, target: Target) -> float:
    """Cycles of bringing `elements` floats from one layout to another in a kernel of its own, through registers."""
    rounds = 2 * (target.machine.lanes() - 1).bit_length()
    return copy_cost(4 * elements, target, target.machine.shuffle * rounds / 2).cycles


def _grouped_layouts(
    conv: Conv2DWorkload, out_block: int | None, plain: Conv2DLayouts, target: Target | None, arriving: int | None
) -> list[Conv2DLayouts]:
    blocks = grouped_blocks(conv, arriving or channel_block(conv.in_channels, target), out_block)
    if blocks is None:
        return [plain]
    layouts = Conv2DLayouts(f"NCHW{blocks[0]}c", f"OIHW{blocks[0]}i{blocks[1]}o", f"NCHW{blocks[1]}c")
    blocked = replace(conv, in_block=blocks[0], out_block=blocks[1])
    return [_priced("grouped_conv2d_NCHWc", blocked, layouts, target), plain]
