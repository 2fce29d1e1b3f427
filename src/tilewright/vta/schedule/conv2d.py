"""A convolution as a program: inputs and weights loaded while products are added, tiles ended while the next begins.

How it is cut is a `Tiling` (`geometry.py`), chosen by `choice.py` or by who explores.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

from tilewright.errors import InputError
from tilewright.vta.codec import make_uop
from tilewright.vta.commands import Commands, Loop
from tilewright.vta.isa import Isa
from tilewright.vta.schedule import loops
from tilewright.vta.schedule.epilogue import Epilogue, Stretch
from tilewright.vta.schedule.geometry import MOST_STRIDE, Conv2D, Part, Tiling, parts_of
from tilewright.vta.schedule.pipeline import Piece, Step, Tile, run_tiles

_BYTE = 8


@dataclass(frozen=True)
class Addresses:
    """The DRAM addresses of the image, the weights and the result, in elements of INP, WGT and OUT."""

    data: int
    weight: int
    out: int


def conv2d(
    commands: Commands, conv: Conv2D, at: Addresses, epilogue: Epilogue, tiling: Tiling, planes: int = 1
) -> None:
    """Record the convolution; what `epilogue` makes of the sums is stored. All that came before must be stored.

    With several `planes` these are so many bytes of it, the lowest first, each an image of its own behind the other.
    Raises `InputError` for tiles that do not fit on the chip.
    """
    if not tiling.fits(commands.isa.config, conv, epilogue.reserved, epilogue.most_outputs()):
        raise InputError(f"{tiling} of {conv} does not fit on the accelerator {commands.isa.config.name}")
    with commands.loading_ahead():
        epilogue.begin(commands, tiling.threads)
        run_tiles(commands, _Program(commands, conv, at, epilogue, tiling, planes).tiles(), tiling.threads)


@lru_cache(maxsize=4096)
def gemm_plan(conv: Conv2D, rows: int, columns: int, outputs: int, inputs: int, most: int) -> loops.Plan | None:
    """A plan of loops over the products of one step with at most `most` micro-ops; None where there is none."""
    tall, wide = conv.rows_of(rows), conv.columns_of(columns)
    walk: tuple[Loop, ...] = (
        (inputs, 0, tall * wide, conv.taps),
        (conv.kernel[0], 0, conv.dilation[0] * wide, conv.kernel[1]),
        (conv.kernel[1], 0, conv.dilation[1], 1),
        (outputs, rows * columns, 0, inputs * conv.taps),
        (rows, columns, conv.steps[0] * wide, 0),
        (columns, 1, conv.steps[1], 0),
    )
    return loops.plan(walk, most)


def most_uops(isa: Isa, threads: int) -> int:
    """The number of micro-ops that a step may have, for those of all turns to stay on the chip."""
    return isa.memories["UOP"].depth // (2 * threads)


class _Program:
    def __init__(
        self, commands: Commands, conv: Conv2D, at: Addresses, epilogue: Epilogue, tiling: Tiling, planes: int
    ) -> None:
        self.commands, self.conv, self.at, self.epilogue, self.tiling = commands, conv, at, epilogue, tiling
        self.planes = planes
        isa: Isa = commands.isa
        depth, threads = {m.name: m.depth for m in isa.memories.values()}, tiling.threads
        self.isa, self.most_uops = isa, most_uops(isa, threads)
        self.acc = epilogue.part(isa, threads)
        kept = min(threads, tiling.slabs(conv))
        self.turns = {"image": threads, "weights": threads}
        if tiling.keep:
            self.turns[tiling.keep] = kept
        self.inp, self.wgt = depth["INP"] // self.turns["image"], depth["WGT"] // self.turns["weights"]
        self.there: set[tuple[int, int]] = set()
        self.bounded = not epilogue.begins_on_bounded

    def tiles(self) -> Iterator[Tile]:
        """The tiles of the result."""
        for part in parts_of(self.conv, self.tiling):
            firsts = range(0, self.conv.inputs, self.tiling.inputs)
            yield Tile(
                pieces=tuple(self._pieces(part)),
                steps=tuple(self._step(part, first) for first in firsts),
                early=self.tiling.early,
            )

    # --------------------------------------------------------------------------------------------------- pieces
    def _pieces(self, part: Part) -> Iterator[Piece]:
        """A tile in parts: of its blocks, or, where these are too few, of the rows of each."""
        count = self.tiling.parts if self.planes == 1 else 1
        of_rows = min(part.rows, max(1, count // part.outputs))
        of_blocks = part.outputs if of_rows > 1 else min(count, part.outputs)
        for blocks in itertools.pairwise(part.outputs * i // of_blocks for i in range(of_blocks + 1)):
            for rows in itertools.pairwise(part.rows * i // of_rows for i in range(of_rows + 1)):
                yield self._piece(part, blocks, rows)

    def _piece(self, part: Part, blocks: tuple[int, int], rows: tuple[int, int]) -> Piece:
        low = blocks[0] * part.pixels + rows[0] * part.columns
        count, pixels = blocks[1] - blocks[0], (rows[1] - rows[0]) * part.columns
        first, threads = part.group * self.conv.outputs + part.block + blocks[0], self.tiling.threads

        def on(thread: int) -> Stretch:
            return Stretch(thread, low, first, count, pixels)

        def begin(thread: int) -> None:
            first = not self.bounded
            if first:
                self.epilogue.zero(self.commands, threads, on(thread), by_vector_unit=False)
            self.epilogue.clear(self.commands, threads, on(thread), self.tiling.early)
            if first and low + count * pixels == part.outputs * part.pixels:
                self._bound(low + count * pixels)

        def end(thread: int) -> None:
            self.epilogue.apply(self.commands, self.tiling.threads, on(thread))

        more = ((partial(self._next_byte, part), partial(self._store, part, p, blocks, rows)) for p in self._planes())
        return Piece(begin, end, partial(self._store, part, 0, blocks, rows), low, low + count * pixels, tuple(more))

    def _bound(self, done: int) -> None:
        """Set all accumulators of tiles to zero but for those of the first tile, while loads are on their way."""
        for thread in range(min(self.tiling.threads, sum(1 for _ in parts_of(self.conv, self.tiling)))):
            low = 0 if thread else done
            if low < self.tiling.sums:
                rest = Stretch(thread, low, 0, 1, self.tiling.sums - low)
                self.epilogue.zero(self.commands, self.tiling.threads, rest, by_vector_unit=True)
        self.bounded = True

    def _planes(self) -> range:
        return range(1, self.planes)

    def _next_byte(self, part: Part, thread: int) -> None:
        uops = self.commands.uops((make_uop(self.isa, dst=thread * self.acc),))
        self.commands.alu("SHR", uops, inner=(part.outputs * part.pixels, 1, 0, 0), imm=_BYTE)

    # ----------------------------------------------------------------------------------------------------- load
    def _step(self, part: Part, first: int) -> Step:
        conv, tiling = self.conv, self.tiling
        count = min(tiling.inputs, conv.inputs - first)
        image = conv.rows_of(part.rows) * conv.columns_of(part.columns)

        def positions(turn: int) -> tuple[int, int]:
            """The offsets of inputs and weights of the step: those that are kept follow those of the steps before."""
            slot = part.slab % self.turns[tiling.keep] if tiling.keep else 0
            inp = slot * self.inp + first * image if tiling.keep == "image" else turn * self.inp
            weights = part.outputs * conv.taps
            wgt = slot * self.wgt + first * weights if tiling.keep == "weights" else turn * self.wgt
            return inp, wgt

        def load(turn: int) -> None:
            inp, wgt = positions(turn)
            again = (part.slab, first) in self.there
            self.there.add((part.slab, first))
            if not (again and tiling.keep == "image"):
                self._load_image(part, first, count, inp)
            if not (again and tiling.keep == "weights"):
                self._load_weights(part, first, count, wgt)

        def compute(thread: int, turn: int) -> None:
            plan = gemm_plan(conv, part.rows, part.columns, part.outputs, count, self.most_uops)
            assert plan is not None, "smaller tiles have fewer loops than the one that was chosen"
            words = plan.words(self.isa, thread * self.acc, *positions(turn))
            self.commands.gemm(self.commands.uops(words), plan.outer, plan.inner)

        return Step(load, compute)

    def _load_image(self, part: Part, first: int, count: int, sram: int) -> None:
        """Input blocks `first` …, `count` of them, with zeros around the image."""
        conv = self.conv
        rows, columns = conv.rows_of(part.rows), conv.columns_of(part.columns)
        top, left = part.row * conv.strides[0] - conv.padding[0], part.column * conv.strides[1] - conv.padding[1]
        above, before = max(0, -top), max(0, -left)
        down, across = conv.skips
        below = max(0, top + (rows - 1) * down + 1 - conv.height)
        behind = max(0, left + (columns - 1) * across + 1 - conv.width)
        inner, wide = rows - above - below, columns - before - behind
        area = conv.height * conv.width
        start = self.at.data + ((part.image * conv.groups + part.group) * conv.inputs + first) * area
        start += (top + above) * conv.width + left + before
        padded = above or below or before or behind
        whole = (wide == conv.width and down == 1) or inner == 1
        if not padded and whole and (across == 1 or wide == 1) and area <= MOST_STRIDE:
            self.commands.load("INP", sram, start, (count, inner * wide), area)
            return
        for index in range(count):
            at, block = sram + index * rows * columns, start + index * area
            if across == 1 or wide == 1:
                pad = (above, below, before, behind)
                self.commands.load("INP", at, block, (inner, wide), down * conv.width, pad)
                continue
            for row in range(rows):
                self.commands.load("INP", at + row * wide, block + row * down * conv.width, (wide, 1), across)

    def _load_weights(self, part: Part, first: int, count: int, sram: int) -> None:
        conv, taps = self.conv, self.conv.taps
        row = (part.group * conv.outputs + part.block) * conv.inputs
        start = self.at.weight + (row + first) * taps
        if conv.inputs * taps <= MOST_STRIDE:
            self.commands.load("WGT", sram, start, (part.outputs, count * taps), conv.inputs * taps)
            return
        for index in range(part.outputs):
            at = start + index * conv.inputs * taps
            self.commands.load("WGT", sram + index * count * taps, at, (1, count * taps), count * taps)

    # ---------------------------------------------------------------------------------------------------- store
    def _store(self, part: Part, plane: int, blocks: tuple[int, int], rows: tuple[int, int], thread: int) -> None:
        """These blocks and rows of a tile."""
        conv = self.conv
        area, height = conv.out_height * conv.out_width, rows[1] - rows[0]
        first = part.group * conv.outputs + part.block + blocks[0]
        block = (plane * conv.images + part.image) * conv.groups * conv.outputs + first
        start = self.at.out + block * area + (part.row + rows[0]) * conv.out_width + part.column
        sram = thread * self.acc + blocks[0] * part.pixels + rows[0] * part.columns
        count = blocks[1] - blocks[0]
        if (part.columns == conv.out_width or part.rows == 1) and area <= MOST_STRIDE:
            self.commands.store(sram, start, (count, height * part.columns), area)
            return
        for index in range(count):
            at = start + index * area
            self.commands.store(sram + index * part.pixels, at, (height, part.columns), conv.out_width)
