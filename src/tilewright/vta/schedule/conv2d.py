"""A convolution as a program: tiles chosen by an analytic model, inputs and weights loaded while products are added.

All is counted in tiles of numbers, `batch` × `block`: an image is [channel block][row][column], weights are
[output block][input block][row][column]. A matrix product is a convolution of an image of one pixel; groups that share
no tile of channels are convolutions side by side (`layout.py` joins smaller groups).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

from tilewright.errors import UnsupportedError
from tilewright.vta.codec import make_uop
from tilewright.vta.commands import Commands, Loop
from tilewright.vta.config import Config
from tilewright.vta.isa import Isa
from tilewright.vta.schedule import loops
from tilewright.vta.schedule.epilogue import Epilogue
from tilewright.vta.schedule.pipeline import Step, Tile, run_tiles

#: What a load or store costs beside its bytes, in cycles, and the bytes that DRAM gives a cycle.
_LATENCY, _BYTES_PER_CYCLE = 16, 8
#: Most rows or elements of padding that an instruction adds on a side.
_MOST_PAD = 15
_MOST_STRIDE = (1 << 16) - 1
_BYTE = 8
#: Steps of ALU on an output that are expected: bias, shift and two bounds.
_EPILOGUE = 4


@dataclass(frozen=True)
class Conv2D:
    """The geometry: `images` images and `groups` side by side, blocks of input and output channels of a group.

    `padding` is (above, left, below, right).
    """

    groups: int
    inputs: int
    outputs: int
    height: int
    width: int
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    images: int = 1

    @property
    def out_height(self) -> int:
        """Rows of the result."""
        reach = (self.kernel[0] - 1) * self.dilation[0] + 1
        return (self.height + self.padding[0] + self.padding[2] - reach) // self.strides[0] + 1

    @property
    def out_width(self) -> int:
        """Columns of the result."""
        reach = (self.kernel[1] - 1) * self.dilation[1] + 1
        return (self.width + self.padding[1] + self.padding[3] - reach) // self.strides[1] + 1

    @property
    def taps(self) -> int:
        """Tiles of weights between a block of inputs and one of outputs."""
        return self.kernel[0] * self.kernel[1]

    @property
    def gemm_steps(self) -> int:
        """Steps of GEMM that it takes, without those that only set zeros."""
        pixels = self.images * self.out_height * self.out_width
        return self.groups * self.inputs * self.outputs * self.taps * pixels

    def refusal(self) -> str:
        """Why the accelerator cannot do it; "" where it can."""
        reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation)]
        sides = list(zip(self.padding, (reach[0], reach[1], reach[0], reach[1])))
        if any(pad >= size for pad, size in sides):
            return f"padding {self.padding} is as wide as the kernel {self.kernel}"
        if any(pad > _MOST_PAD for pad, _ in sides):
            return f"padding {self.padding} is more than {_MOST_PAD} on a side"
        return f"it has {self.width} columns, more than {_MOST_STRIDE}" if self.width > _MOST_STRIDE else ""

    def rows_of(self, rows: int) -> int:
        """Rows of inputs that `rows` rows of outputs read."""
        return (rows - 1) * self.strides[0] + (self.kernel[0] - 1) * self.dilation[0] + 1

    def columns_of(self, columns: int) -> int:
        """Columns of inputs that `columns` columns of outputs read."""
        return (columns - 1) * self.strides[1] + (self.kernel[1] - 1) * self.dilation[1] + 1


@dataclass(frozen=True)
class Tiling:
    """Rows, columns and output blocks of a tile, input blocks of a step, and virtual threads."""

    rows: int
    columns: int
    outputs: int
    inputs: int
    threads: int = 2


@dataclass(frozen=True)
class Addresses:
    """Where in DRAM the image, the weights and the result lie, in elements of INP, WGT and OUT."""

    data: int
    weight: int
    out: int


# ------------------------------------------------------------------------------------------------- choice of tiles
@lru_cache(maxsize=1024)
def choose_tiling(
    config: Config, conv: Conv2D, threads: int = 2, reserved: int = 0, most_outputs: int = 1 << 16
) -> Tiling:
    """The tiles that are expected to take least time; `reserved` accumulators of a thread are the epilogue's.

    A tile has at most `most_outputs` blocks of outputs. Where two virtual threads find no room, there is one.

    Raises `UnsupportedError` where not even the smallest tiles fit on the chip.
    """
    fitting = [tiling for tiling in _tilings(conv, threads) if _fits(config, conv, tiling, reserved, most_outputs)]
    most_uops = (1 << config.log_uop_depth) // (2 * threads)
    for tiling in sorted(fitting, key=lambda tiling: _cycles(config, conv, tiling)):
        if _gemm_plan(conv, tiling, most_uops) is not None:
            return tiling
    if threads > 1:
        return choose_tiling(config, conv, threads - 1, reserved, most_outputs)
    raise UnsupportedError(
        f"{conv} does not fit on the accelerator {config.name}: one row of one block needs "
        f"{conv.rows_of(1) * conv.columns_of(1)} tiles of inputs and {conv.taps} of weights; "
        "take larger memories"
    )


def fits(config: Config, conv: Conv2D) -> bool:
    """True if there are tiles that fit, whatever the epilogue."""
    least = Tiling(1, 1, 1, 1, 1)
    return _fits(config, conv, least, (1 << config.log_acc_depth) // 4, 1)


def _pieces(size: int) -> list[int]:
    """Sizes of pieces to try: those that make equal pieces, rounded up."""
    return sorted({-(-size // pieces) for pieces in range(1, size + 1)})


def _tilings(conv: Conv2D, threads: int) -> Iterator[Tiling]:
    columns = [c for c in _pieces(conv.out_width) if c in (conv.out_width, 1) or c >= 4]
    sizes = (_pieces(conv.out_height), columns, *map(_pieces, (conv.outputs, conv.inputs)))
    for rows, width, outputs, inputs in itertools.product(*sizes):
        yield Tiling(rows, width, outputs, inputs, threads)


def _fits(config: Config, conv: Conv2D, tiling: Tiling, reserved: int, most_outputs: int) -> bool:
    image = tiling.inputs * conv.rows_of(tiling.rows) * conv.columns_of(tiling.columns)
    weights = tiling.inputs * tiling.outputs * conv.taps
    sums = tiling.outputs * tiling.rows * tiling.columns
    return (
        tiling.outputs <= most_outputs
        and image * tiling.threads <= 1 << config.log_inp_depth
        and weights * tiling.threads <= 1 << config.log_wgt_depth
        and sums + reserved <= (1 << config.log_acc_depth) // tiling.threads
    )


def _cycles(config: Config, conv: Conv2D, tiling: Tiling) -> float:
    """About how many cycles the layer takes: the busier of loading and computing, or both where nothing overlaps."""
    tiles = conv.groups * conv.images
    for whole, part in (
        (conv.out_height, tiling.rows),
        (conv.out_width, tiling.columns),
        (conv.outputs, tiling.outputs),
    ):
        tiles *= -(-whole // part)
    chunks = -(-conv.inputs // tiling.inputs)
    image = tiling.inputs * conv.rows_of(tiling.rows) * conv.columns_of(tiling.columns) * config.element_bytes("inp")
    weights = tiling.inputs * tiling.outputs * conv.taps * config.element_bytes("wgt")
    sums = tiling.outputs * tiling.rows * tiling.columns
    load = (image + weights) / _BYTES_PER_CYCLE + _LATENCY * (1 + tiling.inputs)
    products = sums * tiling.inputs * conv.taps + _LATENCY
    store = sums * config.element_bytes("out") / _BYTES_PER_CYCLE + _LATENCY
    zeros, rest = (0, _EPILOGUE + 1) if _clears_early(conv) else (sums, _EPILOGUE)
    rest = rest * sums + _LATENCY
    if tiling.threads == 1:
        return tiles * (chunks * (load + products) + zeros + rest + store)
    # While ALU ends a tile, GEMM does the steps of the next that are loaded: their tokens come in the program's order.
    behind = max(0, chunks - tiling.threads)
    begun = zeros + (chunks - behind) * products
    compute = max(begun, rest + load if behind else rest) + behind * products
    return tiles * max(chunks * load, compute, store) + load + rest + store


def _clears_early(conv: Conv2D) -> bool:
    """True where the vector unit has time to set accumulators to zero, which the matrix unit does otherwise."""
    return conv.inputs * conv.taps > 2 * _EPILOGUE


# ------------------------------------------------------------------------------------------------------ the program
def conv2d(
    commands: Commands, conv: Conv2D, at: Addresses, epilogue: Epilogue, tiling: Tiling, planes: int = 1
) -> None:
    """Record the convolution; what `epilogue` makes of the sums is stored. All that came before must be stored.

    With several `planes` these are so many bytes of it, the lowest first, each an image of its own behind the other.
    """
    epilogue.begin(commands, tiling.threads)
    run_tiles(commands, _Program(commands, conv, at, epilogue, tiling, planes).tiles(), tiling.threads)


@lru_cache(maxsize=4096)
def _gemm_plan(conv: Conv2D, tile: Tiling, most: int) -> loops.Plan | None:
    """How to walk the products of one step."""
    rows, columns = conv.rows_of(tile.rows), conv.columns_of(tile.columns)
    walk: tuple[Loop, ...] = (
        (tile.inputs, 0, rows * columns, conv.taps),
        (conv.kernel[0], 0, conv.dilation[0] * columns, conv.kernel[1]),
        (conv.kernel[1], 0, conv.dilation[1], 1),
        (tile.outputs, tile.rows * tile.columns, 0, tile.inputs * conv.taps),
        (tile.rows, tile.columns, conv.strides[0] * columns, 0),
        (tile.columns, 1, conv.strides[1], 0),
    )
    return loops.plan(walk, most)


@dataclass(frozen=True)
class _Part:
    """A tile of the result: image, group, first block, row and column, and its size."""

    image: int
    group: int
    block: int
    row: int
    column: int
    size: Tiling


class _Program:
    def __init__(
        self, commands: Commands, conv: Conv2D, at: Addresses, epilogue: Epilogue, tiling: Tiling, planes: int
    ) -> None:
        self.commands, self.conv, self.at, self.epilogue, self.tiling = commands, conv, at, epilogue, tiling
        self.planes = planes
        isa: Isa = commands.isa
        depth, threads = {m.name: m.depth for m in isa.memories.values()}, tiling.threads
        self.isa, self.most_uops = isa, depth["UOP"] // (2 * threads)
        self.inp, self.wgt = depth["INP"] // threads, depth["WGT"] // threads
        self.acc = epilogue.part(isa, threads)

    def tiles(self) -> Iterator[Tile]:
        """The tiles of the result, those that share weights next to each other."""
        conv, t = self.conv, self.tiling
        places = itertools.product(
            range(conv.groups),
            range(0, conv.outputs, t.outputs),
            range(conv.images),
            range(0, conv.out_height, t.rows),
            range(0, conv.out_width, t.columns),
        )
        for group, block, image, row, column in places:
            size = Tiling(
                min(t.rows, conv.out_height - row),
                min(t.columns, conv.out_width - column),
                min(t.outputs, conv.outputs - block),
                t.inputs,
            )
            yield self._tile(_Part(image, group, block, row, column, size))

    def _tile(self, part: _Part) -> Tile:
        firsts = range(0, self.conv.inputs, self.tiling.inputs)
        steps = [self._step(part, first, min(self.tiling.inputs, self.conv.inputs - first)) for first in firsts]
        return Tile(
            begin=lambda thread: self._zero(part, thread),
            steps=tuple(steps),
            end=partial(self._end, part),
            store=partial(self._store, part, 0),
            early=partial(self._clear, part) if _clears_early(self.conv) else None,
            more=tuple(
                (partial(self._next_byte, part), partial(self._store, part, plane)) for plane in range(1, self.planes)
            ),
        )

    def _step(self, part: _Part, first: int, count: int) -> Step:
        def load(turn: int) -> None:
            self._load_image(part, first, count, turn * self.inp)
            self._load_weights(part, first, count, turn * self.wgt)

        return Step(load, lambda thread, turn: self._products(part, count, thread, turn))

    # ----------------------------------------------------------------------------------------------------- load
    def _load_image(self, part: _Part, first: int, count: int, sram: int) -> None:
        """Input blocks `first` …, `count` of them, with zeros around the image."""
        conv, size = self.conv, part.size
        rows, columns = conv.rows_of(size.rows), conv.columns_of(size.columns)
        top, left = part.row * conv.strides[0] - conv.padding[0], part.column * conv.strides[1] - conv.padding[1]
        above, before = max(0, -top), max(0, -left)
        below, behind = max(0, top + rows - conv.height), max(0, left + columns - conv.width)
        inner, wide = rows - above - below, columns - before - behind
        block = (part.image * conv.groups + part.group) * conv.inputs + first
        area = conv.height * conv.width
        start = self.at.data + block * area + (top + above) * conv.width + left + before
        whole_rows = wide == conv.width or inner == 1
        if not (above or below or before or behind) and whole_rows and area <= _MOST_STRIDE:
            self.commands.load("INP", sram, start, (count, inner * wide), area)
            return
        for index in range(count):
            at, pad = sram + index * rows * columns, (above, below, before, behind)
            self.commands.load("INP", at, start + index * area, (inner, wide), conv.width, pad)

    def _load_weights(self, part: _Part, first: int, count: int, sram: int) -> None:
        conv, taps = self.conv, self.conv.taps
        row = (part.group * conv.outputs + part.block) * conv.inputs
        start = self.at.weight + (row + first) * taps
        if conv.inputs * taps <= _MOST_STRIDE:
            self.commands.load("WGT", sram, start, (part.size.outputs, count * taps), conv.inputs * taps)
            return
        for index in range(part.size.outputs):
            at = start + index * conv.inputs * taps
            self.commands.load("WGT", sram + index * count * taps, at, (1, count * taps), count * taps)

    # -------------------------------------------------------------------------------------------------- compute
    def _pixels(self, part: _Part) -> int:
        return part.size.rows * part.size.columns

    def _zero(self, part: _Part, thread: int) -> None:
        uops = self.commands.uops((make_uop(self.isa, dst=thread * self.acc),))
        self.commands.gemm(uops, inner=(part.size.outputs * self._pixels(part), 1, 0, 0), reset=True)

    def _clear(self, part: _Part, thread: int) -> None:
        """Zeros by the vector unit, while the matrix unit works for another thread."""
        uops = self.commands.uops((make_uop(self.isa, dst=thread * self.acc),))
        self.commands.alu("MUL", uops, inner=(part.size.outputs * self._pixels(part), 1, 0, 0), imm=0)

    def _products(self, part: _Part, count: int, thread: int, turn: int) -> None:
        size = Tiling(part.size.rows, part.size.columns, part.size.outputs, count)
        plan = _gemm_plan(self.conv, size, self.most_uops)
        assert plan is not None, "smaller tiles have fewer loops than the one that was chosen"
        words = plan.words(self.isa, thread * self.acc, turn * self.inp, turn * self.wgt)
        self.commands.gemm(self.commands.uops(words), plan.outer, plan.inner)

    def _end(self, part: _Part, thread: int) -> None:
        first, threads = part.group * self.conv.outputs + part.block, self.tiling.threads
        self.epilogue.apply(self.commands, thread, threads, first, part.size.outputs, self._pixels(part))

    def _next_byte(self, part: _Part, thread: int) -> None:
        uops = self.commands.uops((make_uop(self.isa, dst=thread * self.acc),))
        self.commands.alu("SHR", uops, inner=(part.size.outputs * self._pixels(part), 1, 0, 0), imm=_BYTE)

    # ---------------------------------------------------------------------------------------------------- store
    def _store(self, part: _Part, plane: int, thread: int) -> None:
        conv, size = self.conv, part.size
        area, pixels = conv.out_height * conv.out_width, self._pixels(part)
        blocks = conv.groups * conv.outputs
        block = (plane * conv.images + part.image) * blocks + part.group * conv.outputs + part.block
        start = self.at.out + block * area + part.row * conv.out_width + part.column
        sram = thread * self.acc
        if (size.columns == conv.out_width or size.rows == 1) and area <= _MOST_STRIDE:
            self.commands.store(sram, start, (size.outputs, pixels), area)
            return
        for index in range(size.outputs):
            at = start + index * area
            self.commands.store(sram + index * pixels, at, (size.rows, size.columns), conv.out_width)
