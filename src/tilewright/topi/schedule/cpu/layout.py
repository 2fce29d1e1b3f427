"""Which memory layouts a convolution or matrix product can run in on a CPU, and what each costs.

Activations are blocked by channels (NCHW16c) in most of a network, so that the innermost loop is one vector of output
channels and every load of an activation is a broadcast of one float; weights are blocked the same way at compile time.
Plain images are read and written where a change of layout would cost more than it gains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.target import Target
from tilewright.topi.schedule.cpu.conv2d_cost import (
    ConvolutionShape,
    blocked_cost,
    depthwise_cost,
    plain_cost,
    plain_depthwise_cost,
    plain_input_cost,
)
from tilewright.topi.schedule.cpu.grouped_conv2d import grouped_blocks, grouped_cost

#: Channel blocks in the order of preference: a whole AVX-512 vector, an AVX2 vector, an SSE or NEON vector.
CHANNEL_BLOCKS = (16, 8, 4)

#: Pixels of an image from which a depthwise convolution of plain data stays plain where costs are not compared.
_PLAIN_DEPTHWISE = 100


@dataclass(frozen=True)
class Conv2DLayouts:
    """Layouts of the three operands of one convolution, spelled as in the attributes of `nn.conv2d`, and their cost.

    The cost is an estimate in vector multiply-adds, about cycles of one core; 0 where there is no target to judge by.
    """

    data: str
    kernel: str
    out: str
    cost: float = 0.0


def channel_block(channels: int, target: Target | None = None) -> int | None:
    """The widest block that divides `channels` and fits a vector of the target; None if there is none."""
    lanes = 16 if target is None else max(4, target.vector_bits // 32)
    return next((b for b in CHANNEL_BLOCKS if b <= max(lanes, 8) and channels % b == 0), None)


def conv2d_layouts(
    conv: ConvolutionShape, target: Target | None = None, arriving_block: int | None = None
) -> list[Conv2DLayouts]:
    """The layouts that `conv` can run in, the usual ones first: blocked ones before plain ones.

    Activations that arrive in blocks (`arriving_block`) are read as they are: a register tile takes any block of the
    input channels. Plain ones can be read as they are too, as those of a first layer of few channels are.
    """
    out_block = channel_block(conv.out_channels, target)
    plain = Conv2DLayouts("NCHW", "OIHW", "NCHW")
    if conv.depthwise:
        return _depthwise_layouts(conv, out_block, plain, target, arriving_block)
    if conv.groups != 1:
        return _grouped_layouts(conv, out_block, plain, target, arriving_block)
    if out_block is None:
        return [plain]
    in_block = arriving_block or channel_block(conv.in_channels, target)
    blocked = None if in_block is None else f"NCHW{in_block}c"
    choices = []
    if blocked is not None:
        cost = 0.0 if target is None else blocked_cost(conv, in_block or 1, out_block, target)
        choices.append(Conv2DLayouts(blocked, f"OIHW{in_block}i{out_block}o", f"NCHW{out_block}c", cost))
    if arriving_block is None:
        cost = 0.0 if target is None else plain_input_cost(conv, out_block, target)
        choices.append(Conv2DLayouts("NCHW", f"OIHW{out_block}o", f"NCHW{out_block}c", cost))
    return [*choices, replace(plain, cost=0.0 if target is None else plain_cost(conv, target))]


def _depthwise_layouts(
    conv: ConvolutionShape, out_block: int | None, plain: Conv2DLayouts, target: Target | None, arriving: int | None
) -> list[Conv2DLayouts]:
    """Without a target to judge by, plain images of many pixels stay plain."""
    if out_block is None or conv.in_channels != conv.out_channels:
        return [plain]
    block = arriving or out_block
    blocked = Conv2DLayouts(f"NCHW{block}c", f"OIHW1i{block}o", f"NCHW{block}c")
    if target is None:
        return [plain, blocked] if arriving is None and conv.in_pixels >= _PLAIN_DEPTHWISE else [blocked, plain]
    costs = (depthwise_cost(conv, block, target), plain_depthwise_cost(conv, target))
    return [replace(blocked, cost=costs[0]), replace(plain, cost=costs[1])]


def _grouped_layouts(
    conv: ConvolutionShape, out_block: int | None, plain: Conv2DLayouts, target: Target | None, arriving: int | None
) -> list[Conv2DLayouts]:
    blocks = grouped_blocks(conv, arriving or channel_block(conv.in_channels, target), out_block)
    if blocks is None:
        return [plain]
    data, out = (f"NCHW{block}c" for block in blocks)
    blocked = Conv2DLayouts(data, f"OIHW{blocks[0]}i{blocks[1]}o", out)
    if target is None:
        return [blocked, plain]
    cost = grouped_cost(conv, blocks[1], target)
    return [replace(blocked, cost=cost), replace(plain, cost=plain_cost(conv, target))]
