"""Which memory layout a convolution or matrix product wants on a CPU.

Activations are blocked by channels (NCHW16c), so that the innermost loop is one vector of output channels and every
load of an activation is a broadcast of one float; weights are blocked the same way at compile time.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.target import Target
from tilewright.topi.schedule.cpu import tile
from tilewright.topi.schedule.cpu.common import power_of_two_lanes

#: Channel blocks in the order of preference: a whole AVX-512 vector, an AVX2 vector, an SSE or NEON vector.
CHANNEL_BLOCKS = (16, 8, 4)

#: Pixels of an image from which a depthwise convolution of plain data stays plain.
_PLAIN_DEPTHWISE = 100

#: Widest packed panel of a weight matrix (see `dense_block`).
_PANEL_LIMIT = 96


@dataclass(frozen=True)
class Conv2DLayouts:
    """Layouts of the three operands of one convolution, spelled as in the attributes of `nn.conv2d`."""

    data: str
    kernel: str
    out: str


def channel_block(channels: int, target: Target | None = None) -> int | None:
    """The widest block that divides `channels` and fits a vector of the target; None if there is none."""
    lanes = 16 if target is None else max(4, target.vector_bits // 32)
    return next((b for b in CHANNEL_BLOCKS if b <= max(lanes, 8) and channels % b == 0), None)


def conv2d_layouts(
    in_channels: int,
    out_channels: int,
    groups: int,
    depthwise: bool,
    target: Target | None = None,
    arriving_block: int | None = None,
    positions: int = 0,
) -> Conv2DLayouts | None:
    """The layouts a convolution from `in_channels` to `out_channels` wants, or None to stay in NCHW/OIHW.

    A convolution of very few input channels (the first layer) reads NCHW and writes blocked. Activations that already
    arrive in blocks (`arriving_block`) are read as they are: a register tile takes any block of the input channels. A
    depthwise convolution of plain images (`positions` pixels) stays plain, unless they are too small for vectors along
    their columns: to block the data for it alone costs as much as the convolution.
    """
    out_block = channel_block(out_channels, target)
    if out_block is None:
        return None
    if depthwise:
        if in_channels != out_channels or (arriving_block is None and positions >= _PLAIN_DEPTHWISE):
            return None
        block = arriving_block or out_block
        return Conv2DLayouts(f"NCHW{block}c", f"OIHW1i{block}o", f"NCHW{block}c")
    if groups != 1:
        return None
    in_block = arriving_block or channel_block(in_channels, target)
    if in_block is None:
        return Conv2DLayouts("NCHW", f"OIHW{out_block}o", f"NCHW{out_block}c")
    return Conv2DLayouts(f"NCHW{in_block}c", f"OIHW{in_block}i{out_block}o", f"NCHW{out_block}c")


def dense_block(units: int, rows: int, target: Target) -> int:
    """Width of the column panels in which a weight matrix [units, K] is packed to [units // b, K, b]; divides `units`.

    One row (matrix times vector) is bound by memory: wide panels give long streams. Several rows share a panel in
    registers: the width is the one whose best register tile is the most efficient.
    """
    widths = [b for b in range(1, min(_PANEL_LIMIT, units) + 1) if units % b == 0]
    lanes = {b: power_of_two_lanes(b, target) for b in widths}
    whole = target.vector_bits // 32
    if rows == 1:
        return max((b for b in widths if b <= 64), key=lambda b: (min(b, 16) * lanes[b], b))

    def worth(b: int) -> tuple[float, int]:
        vectors = b // lanes[b]
        best = max(tile.efficiency(r, vectors, rows, target) for r in range(1, min(rows, 14) + 1))
        return round(best * (0.6 + 0.4 * lanes[b] / whole), 3), -b

    return max(widths, key=worth)
