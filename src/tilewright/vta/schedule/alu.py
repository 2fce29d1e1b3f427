"""Layers of the vector unit as programs: sums of two images, and pooling by maximum or sum.

Images come to the accumulators as 8-bit numbers. Tiles take turns between two virtual threads, so that one is computed
while the other is stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.vta.codec import make_uop
from tilewright.vta.commands import Commands, Loop
from tilewright.vta.config import Config
from tilewright.vta.schedule import loops
from tilewright.vta.schedule.epilogue import Epilogue, Stretch
from tilewright.vta.schedule.pipeline import Piece, Tile, run_tiles

_LOWEST = -128


@dataclass(frozen=True)
class Sum:
    """`count` tiles of numbers at two positions in DRAM, each shifted to the left by so many bits, added."""

    count: int
    left: int
    right: int
    out: int
    shifts: tuple[int, int] = (0, 0)


def add(commands: Commands, total: Sum, epilogue: Epilogue, threads: int = 2) -> None:
    """Record the sum; what `epilogue`, of immediates only, makes of it is stored."""
    part = epilogue.part(commands.isa, threads)
    size = part // 2

    def tile(first: int) -> Tile:
        count = min(size, total.count - first)

        def compute(thread: int) -> None:
            base = thread * part
            for at, source, shift in ((base, total.left, total.shifts[0]), (base + size, total.right, total.shifts[1])):
                commands.load("ACC_8BIT", at, source + first, (1, count), count)
                if shift:
                    uops = commands.uops((make_uop(commands.isa, at),))
                    commands.alu("SHR", uops, inner=(count, 1, 0, 0), imm=-shift)
            commands.alu("ADD", commands.uops((make_uop(commands.isa, base, base + size),)), inner=(count, 1, 1, 0))
            epilogue.apply(commands, threads, Stretch(thread, 0, 0, 1, count))

        def store(thread: int) -> None:
            commands.store(thread * part, total.out + first, (1, count), count)

        return Tile((Piece(compute, lambda thread: None, store),))

    run_tiles(commands, (tile(first) for first in range(0, total.count, size)), threads)


@dataclass(frozen=True)
class Pool:
    """The maximum ("MAX") or sum ("ADD") of windows of an image of `blocks` blocks; `padding` as of a convolution.

    What lies beyond the image does not count.
    """

    op: str
    blocks: int
    height: int
    width: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    out_height: int
    out_width: int

    def input_rows(self, first: int, rows: int) -> tuple[int, int]:
        """The rows of the image that `rows` rows of the result from `first` read: the first, and the one behind."""
        top = first * self.strides[0] - self.padding[0]
        return max(0, top), min(self.height, top + (rows - 1) * self.strides[0] + self.kernel[0])


def pool_tiling(config: Config, pool: Pool, reserved: int = 0, threads: int = 2) -> tuple[int, int] | None:
    """Blocks and rows of a tile, the largest that fits; None where not even a row of one block does."""
    room = (1 << config.log_acc_depth) // threads - reserved
    best: tuple[int, int] | None = None
    for blocks, rows in itertools.product(range(1, pool.blocks + 1), range(1, pool.out_height + 1)):
        read = min(pool.height, (rows - 1) * pool.strides[0] + pool.kernel[0])
        fits = blocks * (rows * pool.out_width + read * pool.width) <= room
        if fits and (best is None or blocks * rows > best[0] * best[1]):
            best = blocks, rows
    return best


def pool(
    commands: Commands, layer: Pool, data: int, out: int, epilogue: Epilogue, tiling: tuple[int, int], threads: int = 2
) -> None:
    """Record the pooling of the image at `data`, an address of ACC_8BIT, to `out`, one of OUT."""
    epilogue.begin(commands, threads)
    run_tiles(commands, _Pooling(commands, layer, (data, out), epilogue, tiling, threads).tiles(), threads)


class _Pooling:
    def __init__(
        self,
        commands: Commands,
        layer: Pool,
        at: tuple[int, int],
        epilogue: Epilogue,
        tiling: tuple[int, int],
        threads: int,
    ) -> None:
        self.commands, self.layer, self.at, self.epilogue = commands, layer, at, epilogue
        self.isa, self.blocks, self.rows = commands.isa, *tiling
        self.part, self.threads = epilogue.part(self.isa, threads), threads
        self.most_uops = self.isa.memories["UOP"].depth // (2 * threads)

    def tiles(self) -> Iterator[Tile]:
        for block in range(0, self.layer.blocks, self.blocks):
            for row in range(0, self.layer.out_height, self.rows):
                size = min(self.blocks, self.layer.blocks - block), min(self.rows, self.layer.out_height - row)
                yield self._tile(block, row, size)

    def _tile(self, block: int, row: int, size: tuple[int, int]) -> Tile:
        def end(thread: int) -> None:
            on = Stretch(thread, 0, block, size[0], size[1] * self.layer.out_width)
            self.epilogue.apply(self.commands, self.threads, on)

        piece = Piece(
            begin=lambda thread: self._compute(block, row, size, thread * self.part),
            end=end,
            store=lambda thread: self._store(block, row, size, thread * self.part),
        )
        return Tile((piece,))

    def _store(self, block: int, row: int, size: tuple[int, int], acc: int) -> None:
        area = self.layer.out_height * self.layer.out_width
        first = self.at[1] + block * area + row * self.layer.out_width
        self.commands.store(acc, first, (size[0], size[1] * self.layer.out_width), area)

    def _compute(self, block: int, row: int, size: tuple[int, int], acc: int) -> None:
        layer, commands = self.layer, self.commands
        pixels = size[0] * size[1] * layer.out_width
        low, high = layer.input_rows(row, size[1])
        area, read = layer.height * layer.width, (high - low) * layer.width
        uops = commands.uops((make_uop(self.isa, acc),))
        commands.gemm(uops, inner=(pixels, 1, 0, 0), reset=True)
        if layer.op == "MAX":
            commands.alu("ADD", uops, inner=(pixels, 1, 0, 0), imm=_LOWEST)
        start = self.at[0] + block * area + low * layer.width
        commands.load("ACC_8BIT", acc + pixels, start, (size[0], read), area)
        for walk, dst, src in self._walks(row, size, low, high):
            plan = loops.plan(walk, self.most_uops)
            assert plan is not None, "a tap of a tile has three loops, two of which an instruction has"
            words = plan.words(self.isa, acc + dst, acc + pixels + src)
            commands.alu(layer.op, commands.uops(words), plan.outer, plan.inner)

    def _walks(
        self, row: int, size: tuple[int, int], low: int, high: int
    ) -> Iterator[tuple[tuple[Loop, ...], int, int]]:
        """Loops with the first dst and src, counted from the tile's results and the rows that were read."""
        layer, (blocks, rows) = self.layer, size
        read, wide = (high - low) * layer.width, layer.out_width
        over_blocks: Loop = (blocks, rows * wide, read, 0)
        spans = (
            [
                _inside(rows, row * layer.strides[0] + y - layer.padding[0], layer.strides[0], layer.height)
                for y in range(layer.kernel[0])
            ],
            [_inside(wide, x - layer.padding[1], layer.strides[1], layer.width) for x in range(layer.kernel[1])],
        )
        if all(span == (0, rows) for span in spans[0]) and all(span == (0, wide) for span in spans[1]):
            walk = (
                over_blocks,
                (layer.kernel[0], 0, layer.width, 0),
                (layer.kernel[1], 0, 1, 0),
                (rows, wide, layer.strides[0] * layer.width, 0),
                (wide, 1, layer.strides[1], 0),
            )
            if loops.plan(walk, self.most_uops) is not None:
                yield walk, 0, (row * layer.strides[0] - layer.padding[0] - low) * layer.width - layer.padding[1]
                return
        for (y, (top, bottom)), (x, (left, right)) in itertools.product(*map(enumerate, spans)):
            if top < bottom and left < right:
                source_row = (row + top) * layer.strides[0] + y - layer.padding[0] - low
                source = source_row * layer.width + left * layer.strides[1] + x - layer.padding[1]
                across = (bottom - top, wide, layer.strides[0] * layer.width, 0), (right - left, 1, layer.strides[1], 0)
                yield (over_blocks, *across), top * wide + left, source


def _inside(count: int, first: int, stride: int, size: int) -> tuple[int, int]:
    """Of `count` positions `stride` apart from `first`, those from 0 to before `size`: the first, and the one
    behind.
    """
    low = max(0, -(first // stride) if first < 0 else 0)
    high = min(count, (size - 1 - first) // stride + 1)
    return low, max(low, high)
