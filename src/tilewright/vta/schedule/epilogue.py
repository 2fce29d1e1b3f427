"""Epilogues of accumulators before they are stored: additions, shifts and bounds, a vector a channel or one number.

Epilogue.of(isa, dram, blocks, [Step("ADD", bias), Step("SHR", 7), Step("MAX", -128), Step("MIN", 127)])

Sums begin with the bias where that is possible, which saves setting them to zero. Version 2 of the instructions has
MOV. The classic ones have no step that forgets what was in an accumulator; but the bounds leave at least `low` there,
and what is larger than any such number less a constant is forgotten by MIN with the bias less that constant:

    y = clip((sum + bias) >> shift, low, high)
    MIN accumulators, bias - (m << shift)        sums begin
    SHR shift, MAX low - m, MIN high - m         y - m

With m a multiple of 256 the byte that is stored of y - m is that of y: four steps an output in place of five.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.vta.codec import make_uop
from tilewright.vta.commands import Commands
from tilewright.vta.dram import Dram
from tilewright.vta.isa import Isa

#: Vectors stay on the chip for a whole layer where they take no more than this part of the accumulators.
_SHARE = 8
#: What the byte that is stored is the same for.
_BYTES = 256
_BITS = 32
_LEAST_IMMEDIATE, _LARGEST_SUM = -(1 << 15), (1 << _BITS - 1) - 1


@dataclass(frozen=True, eq=False)
class Step:
    """`op` of ALU with an immediate of 16 bits, or with a number for each channel (int32)."""

    op: str
    right: int | np.ndarray


@dataclass(frozen=True)
class Stretch:
    """Accumulators of a tile: from `at` of its thread's, `blocks` blocks of channels from `first`, `pixels` each."""

    thread: int
    at: int
    first: int
    blocks: int
    pixels: int


@dataclass(frozen=True)
class Epilogue:
    """Steps, the addresses of their vectors in elements of ACC (-1: an immediate), and room for vectors on the chip.

    Each virtual thread has the vectors at the end of its part of the accumulators, so that the vector unit works within
    one bank while the matrix unit has the other. `reserved` is the room that a thread needs for them. The first step
    is what sums begin with where `begins` says so; else they begin with zero.
    """

    steps: tuple[Step, ...]
    vectors: tuple[int, ...]
    blocks: int
    reserved: int
    resident: bool
    begins: bool = False

    @classmethod
    def of(
        cls, isa: Isa, dram: Dram, blocks: int, steps: Sequence[Step], largest: np.ndarray | None = None
    ) -> Epilogue:
        """Store the vectors of `blocks` × block channels in DRAM; missing channels are zeros.

        `largest` says of each channel how far from zero its sums can be. Without it sums do not begin with the bias:
        where they are none, as in pooling, or where nothing is known of them.
        """
        depth = isa.memories["ACC"].depth
        made, begins = _joined(isa, steps), False
        if sum(isinstance(step.right, np.ndarray) for step in steps) * blocks <= depth // _SHARE:
            begun = _begun(isa, blocks, made, largest)
            made, begins = (made, False) if begun is None else (begun, True)
        vectors = [_position(isa, dram, blocks, s.right) if isinstance(s.right, np.ndarray) else -1 for s in made]
        used = sum(at >= 0 for at in vectors)
        most = min(used * blocks, depth // _SHARE)
        return cls(tuple(made), tuple(vectors), blocks, most, used * blocks <= depth // _SHARE, begins)

    def most_outputs(self) -> int:
        """Blocks of outputs that a tile may have, for its vectors to find room."""
        used = sum(at >= 0 for at in self.vectors)
        return self.blocks if self.resident or not used else self.reserved // used

    def begin(self, commands: Commands, threads: int) -> None:
        """Before the first tile of a layer."""
        if self.resident:
            for thread in range(threads):
                self._load(commands, self._start(commands, thread, threads), 0, self.blocks)

    def part(self, isa: Isa, threads: int) -> int:
        """The number of accumulators of a thread, those of the vectors among them."""
        return isa.memories["ACC"].depth // threads

    @property
    def begins_on_bounded(self) -> bool:
        """True if sums begin with something that needs accumulators which `zero` or earlier tiles have left."""
        return self.begins and self.steps[0].op == "MIN"

    def clear(self, commands: Commands, threads: int, on: Stretch, by_vector_unit: bool) -> None:
        """Write the initial value of the sums. Zeros come from either unit."""
        base = on.thread * self.part(commands.isa, threads) + on.at
        if self.begins:
            self._step(commands, self.steps[0], base, self._start(commands, on.thread, threads), on)
        else:
            self.zero(commands, threads, on, by_vector_unit)

    def zero(self, commands: Commands, threads: int, on: Stretch, by_vector_unit: bool) -> None:
        """Set accumulators to zero."""
        base = on.thread * self.part(commands.isa, threads) + on.at
        uops, loop = commands.uops((make_uop(commands.isa, base),)), (on.blocks * on.pixels, 1, 0, 0)
        if by_vector_unit:
            commands.alu("MUL", uops, inner=loop, imm=0)
        else:
            commands.gemm(uops, inner=loop, reset=True)

    def apply(self, commands: Commands, threads: int, on: Stretch) -> None:
        """The steps on finished sums."""
        base, at = on.thread * self.part(commands.isa, threads) + on.at, self._start(commands, on.thread, threads)
        if not self.resident:
            self._load(commands, at, on.first, on.blocks)
        for index, step in enumerate(self.steps):
            if index or not self.begins:
                self._step(commands, step, base, at, on)
            if isinstance(step.right, np.ndarray):
                at += self.blocks if self.resident else on.blocks

    def _step(self, commands: Commands, step: Step, base: int, at: int, on: Stretch) -> None:
        if isinstance(step.right, np.ndarray):
            uops = commands.uops((make_uop(commands.isa, base, at + (on.first if self.resident else 0)),))
            commands.alu(step.op, uops, (on.blocks, on.pixels, 1, 0), (on.pixels, 1, 0, 0))
        else:
            uops = commands.uops((make_uop(commands.isa, base),))
            commands.alu(step.op, uops, inner=(on.blocks * on.pixels, 1, 0, 0), imm=step.right)

    def _start(self, commands: Commands, thread: int, threads: int) -> int:
        return (thread + 1) * self.part(commands.isa, threads) - self.reserved

    def _load(self, commands: Commands, at: int, first: int, blocks: int) -> None:
        for vector in self.vectors:
            if vector >= 0:
                commands.load("ACC", at, vector + first, (1, blocks), blocks)
                at += blocks


def _joined(isa: Isa, steps: Sequence[Step]) -> list[Step]:
    """Two bounds in bytes as one step, where the instructions have that."""
    made: list[Step] = []
    for step in steps:
        before = made[-1] if made else None
        if "CLIP" in _ops(isa) and before and (before.op, step.op) == ("MAX", "MIN") and _byte(before) and _byte(step):
            both = np.array([before.right, step.right], np.int8).view("<i2")
            made[-1] = Step("CLIP", int(both[0]))
        else:
            made.append(step)
    return made


def _ops(isa: Isa) -> Mapping[str, int]:
    return isa.formats["ALU"].by_name["op"].names or {}


def _byte(step: Step) -> bool:
    return isinstance(step.right, int) and np.iinfo(np.int8).min <= step.right <= np.iinfo(np.int8).max


def _begun(isa: Isa, blocks: int, steps: Sequence[Step], largest: np.ndarray | None) -> list[Step] | None:
    """The steps with one before the sums in place of the addition of the bias; None where there is no such step."""
    if largest is None or not steps or steps[0].op != "ADD" or not isinstance(steps[0].right, np.ndarray):
        return None
    if "MOV" in _ops(isa):
        return [Step("MOV", steps[0].right), *steps[1:]]
    if [step.op for step in steps] != ["ADD", "SHR", "MAX", "MIN"]:
        return None
    shift, low, high = (step.right for step in steps[1:])
    if not isinstance(low, int) or not isinstance(high, int):
        return None
    channels = blocks * isa.config.block
    bias, most = (_filled(values.astype(np.int64), channels, 0) for values in (steps[0].right, largest))
    by = np.full(channels, shift, np.int64) if isinstance(shift, int) else shift.astype(np.int64)
    if by.min() < 0 or by.max() >= _BITS - 1:
        return None
    by = _filled(by, channels, int(by.max()))
    beyond = _beyond(bias, by, low)
    if beyond is None:
        return None
    first = bias - (beyond << by)
    if low - beyond < _LEAST_IMMEDIATE or (most + np.maximum(abs(first), abs(bias)) > _LARGEST_SUM).any():
        return None
    right = shift if isinstance(shift, int) else by.astype(np.int32)
    bounds = Step("MAX", low - beyond), Step("MIN", high - beyond)
    return [Step("MIN", first.astype(np.int32)), Step("SHR", right), *bounds]


def _beyond(bias: np.ndarray, by: np.ndarray, low: int) -> int | None:
    """The least multiple of 256, m, for which bias - (m << by) <= low - m in all channels; None if there is none."""
    if (bias[by == 0] > low).any():
        return None
    found = -(-(bias - low)[by > 0] // (_BYTES * ((1 << by[by > 0]) - 1)))
    return _BYTES * max(0, int(found.max(initial=0)))


def _filled(values: np.ndarray, channels: int, missing: int) -> np.ndarray:
    """A number for each channel of all blocks."""
    return np.pad(values, (0, channels - values.size), constant_values=missing)


def _position(isa: Isa, dram: Dram, blocks: int, values: np.ndarray) -> int:
    """A number for each channel, the same in each row of a tile."""
    config = isa.config
    padded = np.zeros(blocks * config.block, np.int32)
    padded[: values.size] = values
    tiles = np.repeat(padded.reshape(blocks, 1, config.block), config.batch, axis=1)
    return dram.put("ACC", tiles)
