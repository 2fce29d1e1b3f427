"""Convolutions as streams of instructions: tiles of outputs one after another, each summed up over chunks of inputs.

The loads of a chunk go on while GEMM works on the one before it, if there are two threads: these have halves of INP and
WGT by turns, and outputs halves of ACC. So outputs are rescaled and stored while GEMM works on the next tile.
With one thread each waits for the other.

DRAM has inputs as [channel block][row][column] of tiles, weights as [output block][input block][ky][kx], outputs as
[output block][row][column], and one tile of bias an output block. One micro-op a tap of the filter, input block and
output block; rows and columns are the loops of the instruction.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tilewright.errors import UserError
from tilewright.vta.codec import Instruction, make, make_uop, pack
from tilewright.vta.config import EXTENDED
from tilewright.vta.dram import Dram, largest_element
from tilewright.vta.isa import Isa

#: int8 after the rescaling of a layer with ReLU.
_LOW, _HIGH = 0, 127


@dataclass(frozen=True)
class Conv:
    """A layer: rows and columns of its input, channels in and out, filter, stride, padding; a batch of one."""

    height: int
    width: int
    channels: int
    filters: int
    kernel: int
    stride: int
    pad: int

    @property
    def out_height(self) -> int:
        """Rows of the output."""
        return (self.height + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def out_width(self) -> int:
        """Columns of the output."""
        return (self.width + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def macs(self) -> int:
        """Products that it adds up."""
        return self.out_height * self.out_width * self.filters * self.channels * self.kernel**2

    def blocks(self, isa: Isa) -> tuple[int, int]:
        """Blocks of channels in and out."""
        block = isa.config.block
        return -(-self.channels // block), -(-self.filters // block)

    def gemm_steps(self, isa: Isa) -> int:
        """Steps of GEMM that it needs: cycles at full use."""
        inner, outer = self.blocks(isa)
        return self.out_height * self.out_width * inner * outer * self.kernel**2


@dataclass(frozen=True)
class Tiling:
    """Output rows, output blocks and input blocks of a tile; threads; in how many parts its outputs are rescaled.

    With `early` ALU clears the accumulators of a tile during the last chunk of the one before; else GEMM does, at its
    beginning.
    """

    rows: int
    out_blocks: int
    in_blocks: int
    threads: int = 2
    parts: int = 2
    early: bool = False


@dataclass
class Stream:
    """A program in DRAM: instructions at byte `address`; where inputs, weights, bias and outputs begin, in elements."""

    program: list[Instruction]
    address: int
    inp: int
    wgt: int
    bias: int
    out: int


@dataclass
class _Maker:
    """What has been written so far."""

    isa: Isa
    conv: Conv
    tiling: Tiling
    shift: int
    inp: int = 0
    wgt: int = 0
    bias: int = 0
    out: int = 0
    uop: int = 0
    program: list[Instruction] = field(default_factory=list)
    uops: dict[tuple[int, ...], int] = field(default_factory=dict)
    written: int = 0

    def __post_init__(self) -> None:
        conv, tiling, isa = self.conv, self.tiling, self.isa
        self.blocks_in, self.blocks_out = conv.blocks(isa)
        self.moves = isa.config.isa_version >= EXTENDED
        self.columns = (conv.out_width - 1) * conv.stride + conv.kernel
        depth = {name: memory.depth // tiling.threads for name, memory in isa.memories.items()}
        self.half = depth
        rows = (tiling.rows - 1) * conv.stride + conv.kernel
        needs = {
            "INP": rows * self.columns * tiling.in_blocks,
            "WGT": tiling.out_blocks * tiling.in_blocks * conv.kernel**2,
            "ACC": tiling.out_blocks * tiling.rows * conv.out_width + self.blocks_out,
        }
        for name, need in needs.items():
            if need > depth[name]:
                raise UserError(f"{tiling} needs {need} elements of {name}, and a thread has {depth[name]}")

    def emit(self, name: str, **given: int | str) -> None:
        self.program.append(make(self.isa, name, **given))

    def block_of_uops(self, entries: list[tuple[int, int, int]]) -> dict[str, int]:
        """The place of a run of micro-ops on the chip, where equal runs are kept once."""
        key = tuple(make_uop(self.isa, *entry) for entry in entries)
        begin = self.uops.setdefault(key, self.written)
        self.written += len(key) if begin == self.written else 0
        if self.written > self.isa.memories["UOP"].depth:
            raise UserError(f"{self.tiling} needs more micro-ops than the {self.isa.memories['UOP'].depth} there are")
        return {"uop_begin": begin, "uop_end": begin + len(key)}

    def tiles(self) -> Iterator[tuple[int, int]]:
        """The tiles of outputs: first row and first output block. Weights stay where they are needed more often."""
        for row in range(0, self.conv.out_height, self.tiling.rows):
            for block in range(0, self.blocks_out, self.tiling.out_blocks):
                yield row, block

    def make(self) -> list[Instruction]:
        """The whole program but for the load of micro-ops, which stands before it."""
        tiling, tiles = self.tiling, list(self.tiles())
        self._load_bias()
        chunks = range(0, self.blocks_in, tiling.in_blocks)
        for number, (row, block) in enumerate(tiles):
            if number == 0 or not tiling.early:
                self._zero(number, tiles[number])
            for first in chunks:
                if tiling.early and first == chunks[-1] and number + 1 < len(tiles):
                    self._zero(number + 1, tiles[number + 1])
                self._chunk(number, (row, block), first, number * len(chunks) + first // tiling.in_blocks)
            self._end(number, (row, block))
        taken = min(len(tiles) * len(chunks), tiling.threads)
        for number in range(taken):
            self.emit("LOAD", mem_id="INP", pop_next=1, push_next=int(number == taken - 1))
        for _ in range(min(len(tiles), tiling.threads) - 1):
            self.emit("LOAD", mem_id="UOP", pop_next=1)
        self.emit("FINISH", pop_prev=1, pop_next=1)
        return self.program

    def extent(self, tile: tuple[int, int]) -> tuple[int, int]:
        """Rows and output blocks of a tile, which may end at the edge."""
        rows = min(self.tiling.rows, self.conv.out_height - tile[0])
        return rows, min(self.tiling.out_blocks, self.blocks_out - tile[1])

    def _bias_at(self, block: int) -> int:
        """Where the bias of an output block is: at the end of what a thread has, for any may work on it."""
        return self.half["ACC"] - self.blocks_out + block

    def _load_bias(self) -> None:
        """To every thread, so that ALU works within the thread's own bank."""
        for thread in range(self.tiling.threads):
            self.emit(
                "LOAD", mem_id="ACC", sram=thread * self.half["ACC"] + self._bias_at(0), dram=self.bias,
                y_size=1, x_size=self.blocks_out, x_stride=self.blocks_out,
            )  # fmt: skip

    def _zero(self, number: int, tile: tuple[int, int]) -> None:
        """What the sums of a tile begin with: zero or, where ALU can move, the bias. What was there has been stored."""
        rows, blocks = self.extent(tile)
        thread = number % self.tiling.threads
        size, wait = rows * self.conv.out_width, {"pop_next": int(number >= self.tiling.threads)}
        base = thread * self.half["ACC"]
        entries = [(base + b * size, base + self._bias_at(tile[1] + b), 0) for b in range(blocks)]
        loops = {"iter_out": 1, "iter_in": size, "dst_factor_in": 1, **self.block_of_uops(entries), **wait}
        if not self.tiling.early:
            self.emit("GEMM", reset=1, **loops)
        elif self.moves:
            self.emit("ALU", op="MOV", **loops)
        else:
            self.emit("ALU", op="MUL", use_imm=1, **loops)

    def _chunk(self, number: int, tile: tuple[int, int], first: int, chunk: int) -> None:
        """Load a chunk of inputs with its weights, and add it up."""
        threads, depth = self.tiling.threads, min(self.tiling.in_blocks, self.blocks_in - first)
        rows, blocks = self.extent(tile)
        side = chunk % threads
        self._load_chunk(side, tile[0], rows, tile[1], blocks, first, depth, chunk >= threads)
        self._gemm(number % threads, side, rows, blocks, depth)

    def _load_chunk(
        self, side: int, row: int, rows: int, block: int, blocks: int, first: int, depth: int, wait: bool
    ) -> None:
        conv, taps = self.conv, self.conv.kernel**2
        top = row * conv.stride - conv.pad
        height = (rows - 1) * conv.stride + conv.kernel
        above, below = max(0, -top), max(0, top + height - conv.height)
        right = max(0, self.columns - conv.pad - conv.width)
        wide = self.columns - conv.pad - right
        for b in range(depth):
            self.emit(
                "LOAD", mem_id="INP", sram=side * self.half["INP"] + b * height * self.columns,
                dram=self.inp + ((first + b) * conv.height + top + above) * conv.width,
                y_size=height - above - below, x_size=wide, x_stride=conv.width,
                y_pad_0=above, y_pad_1=below, x_pad_0=conv.pad, x_pad_1=right, pop_next=int(wait and b == 0),
            )  # fmt: skip
        self.emit(
            "LOAD", mem_id="WGT", sram=side * self.half["WGT"],
            dram=self.wgt + (block * self.blocks_in + first) * taps,
            y_size=blocks, x_size=depth * taps, x_stride=self.blocks_in * taps, push_next=1,
        )  # fmt: skip

    def _gemm(self, thread: int, side: int, rows: int, blocks: int, depth: int) -> None:
        conv = self.conv
        size, height = rows * conv.out_width, (rows - 1) * conv.stride + conv.kernel
        entries = [
            (
                thread * self.half["ACC"] + b * size,
                side * self.half["INP"] + (i * height + ky) * self.columns + kx,
                side * self.half["WGT"] + ((b * depth + i) * conv.kernel + ky) * conv.kernel + kx,
            )
            for b in range(blocks)
            for i in range(depth)
            for ky in range(conv.kernel)
            for kx in range(conv.kernel)
        ]
        self.emit(
            "GEMM", **self.block_of_uops(entries), iter_out=rows, iter_in=conv.out_width,
            dst_factor_out=conv.out_width, dst_factor_in=1, src_factor_out=conv.stride * self.columns,
            src_factor_in=conv.stride, pop_prev=1, push_prev=1,
        )  # fmt: skip

    def _end(self, number: int, tile: tuple[int, int]) -> None:
        """Rescale and store a tile, in parts, so that one is stored while the next is rescaled."""
        rows, blocks = self.extent(tile)
        parts = min(self.tiling.parts, blocks)
        edges = [blocks * i // parts for i in range(parts + 1)]
        for first, last in itertools.pairwise(edges):
            self._rescale(number, rows, tile[1], first, last)
            self._store(number, tile, rows, first, last, last == blocks)

    def _rescale(self, number: int, rows: int, block: int, first: int, last: int) -> None:
        """Bias, shift, and the range of int8 without what is below zero."""
        size, base = rows * self.conv.out_width, number % self.tiling.threads * self.half["ACC"]
        entries = [(base + b * size, base + self._bias_at(block + b), 0) for b in range(first, last)]
        loops = {"iter_out": 1, "iter_in": size, "dst_factor_in": 1, **self.block_of_uops(entries)}
        one = {"use_imm": 1, "src_factor_in": 1}
        if not (self.moves and self.tiling.early):
            self.emit("ALU", op="ADD", **loops)
        self.emit("ALU", op="SHR", imm=self.shift, **loops, **one)
        if self.moves:
            self.emit("ALU", op="CLIP", imm=_HIGH << 8 | _LOW, **loops, **one, push_next=1)
            return
        self.emit("ALU", op="MAX", imm=_LOW, **loops, **one)
        self.emit("ALU", op="MIN", imm=_HIGH, **loops, **one, push_next=1)

    def _store(self, number: int, tile: tuple[int, int], rows: int, first: int, last: int, ends: bool) -> None:
        conv, size = self.conv, rows * self.conv.out_width
        self.emit(
            "STORE", mem_id="OUT", sram=number % self.tiling.threads * self.half["ACC"] + first * size,
            dram=self.out + ((tile[1] + first) * conv.out_height + tile[0]) * conv.out_width, y_size=last - first,
            x_size=size, x_stride=conv.out_height * conv.out_width, pop_prev=1, push_prev=int(ends),
        )  # fmt: skip


def conv_stream(isa: Isa, dram: Dram, conv: Conv, tiling: Tiling, shift: int = 8) -> Stream:
    """A layer's program, with its micro-ops and room for its data in DRAM.

    Raises `UserError` where the tiling does not fit into the memories of the configuration.
    """
    if isa.config.batch != 1:
        raise UserError("streams of convolutions are for tiles of one row; take LOG_BATCH 0")
    maker = _Maker(isa, conv, tiling, shift)
    inner, outer = maker.blocks_in, maker.blocks_out
    maker.inp = dram.reserve("INP", inner * conv.height * conv.width)
    maker.wgt = dram.reserve("WGT", inner * outer * conv.kernel**2)
    maker.bias = dram.reserve("ACC", outer)
    maker.out = dram.reserve("OUT", outer * conv.out_height * conv.out_width)
    body = maker.make()
    words = np.array([word for run in maker.uops for word in run], isa.memories["UOP"].dtype)
    uop = dram.place("UOP", words)
    load = make(isa, "LOAD", mem_id="UOP", dram=uop, y_size=1, x_size=words.size, x_stride=words.size)
    program = [load, *body]
    address = dram.place_bytes(pack(isa, program), largest_element(isa))
    return Stream(program, address, maker.inp, maker.wgt, maker.bias, maker.out)


def reference(conv: Conv, inputs: np.ndarray, weights: np.ndarray, bias: np.ndarray, shift: int = 8) -> np.ndarray:
    """What the stream computes, by NumPy: inputs (C, H, W), weights (F, C, k, k), bias (F); (F, OH, OW) of int8."""
    padded = np.pad(inputs.astype(np.int64), ((0, 0), (conv.pad,) * 2, (conv.pad,) * 2))
    sums = np.zeros((conv.filters, conv.out_height, conv.out_width), np.int64)
    for ky in range(conv.kernel):
        for kx in range(conv.kernel):
            window = padded[:, ky :: conv.stride, kx :: conv.stride][:, : conv.out_height, : conv.out_width]
            sums += np.einsum("fc,chw->fhw", weights[:, :, ky, kx].astype(np.int64), window)
    return np.clip(sums + bias[:, None, None] >> shift, _LOW, _HIGH).astype(np.int8)


def blocked(values: np.ndarray, block: int) -> np.ndarray:
    """(C, H, W) as tiles (C/block · H · W, 1, block), channels filled up with zeros."""
    channels, height, width = values.shape
    filled = np.pad(values, ((0, -channels % block), (0, 0), (0, 0)))
    tiles = filled.reshape(-1, block, height, width).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(tiles).reshape(-1, 1, block)


def blocked_weights(values: np.ndarray, block: int) -> np.ndarray:
    """(F, C, k, k) as tiles (F/block · C/block · k · k, block, block)."""
    filters, channels, kernel, _ = values.shape
    filled = np.pad(values, ((0, -filters % block), (0, -channels % block), (0, 0), (0, 0)))
    tiles = filled.reshape(filled.shape[0] // block, block, filled.shape[1] // block, block, kernel, kernel)
    return np.ascontiguousarray(tiles.transpose(0, 2, 4, 5, 1, 3)).reshape(-1, block, block)
