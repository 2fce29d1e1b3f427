"""What is done to accumulators before they are stored: additions, shifts and bounds, a vector a channel or one number.

Epilogue.of(isa, dram, blocks, [Step("ADD", bias), Step("SHR", 7), Step("MAX", -128), Step("MIN", 127)])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.vta.codec import make_uop
from tilewright.vta.commands import Commands
from tilewright.vta.dram import Dram
from tilewright.vta.isa import Isa

#: Vectors stay on the chip for a whole layer where they take no more than this part of the accumulators.
_SHARE = 8


@dataclass(frozen=True, eq=False)
class Step:
    """`op` of ALU with an immediate of 16 bits, or with a number for each channel (int32)."""

    op: str
    right: int | np.ndarray


@dataclass(frozen=True)
class Epilogue:
    """Steps, the addresses of their vectors in elements of ACC (-1: an immediate), and room for vectors on the chip.

    Each virtual thread has the vectors at the end of its part of the accumulators, so that the vector unit works within
    one bank while the matrix unit has the other. `reserved` is the room that a thread needs for them.
    """

    steps: tuple[Step, ...]
    vectors: tuple[int, ...]
    blocks: int
    reserved: int
    resident: bool

    @classmethod
    def of(cls, isa: Isa, dram: Dram, blocks: int, steps: Sequence[Step]) -> Epilogue:
        """Place the vectors of `blocks` × block channels in DRAM; missing channels are zeros."""
        steps = _joined(isa, steps)
        vectors = [_place(isa, dram, blocks, s.right) if isinstance(s.right, np.ndarray) else -1 for s in steps]
        used, depth = sum(at >= 0 for at in vectors), isa.memories["ACC"].depth
        resident = used * blocks <= depth // _SHARE
        most = min(used * blocks, depth // _SHARE)
        return cls(tuple(steps), tuple(vectors), blocks, most, resident)

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
        """How many accumulators a thread has, those of the vectors among them."""
        return isa.memories["ACC"].depth // threads

    def apply(self, commands: Commands, thread: int, threads: int, first: int, blocks: int, pixels: int) -> None:
        """On a thread's accumulators: `blocks` blocks of channels from `first`, `pixels` tiles each."""
        isa = commands.isa
        acc, at = thread * self.part(isa, threads), self._start(commands, thread, threads)
        if not self.resident:
            self._load(commands, at, first, blocks)
        for step in self.steps:
            if isinstance(step.right, np.ndarray):
                src = at + (first if self.resident else 0)
                uops = commands.uops((make_uop(isa, acc, src),))
                commands.alu(step.op, uops, (blocks, pixels, 1, 0), (pixels, 1, 0, 0))
                at += self.blocks if self.resident else blocks
            else:
                uops = commands.uops((make_uop(isa, acc),))
                commands.alu(step.op, uops, inner=(blocks * pixels, 1, 0, 0), imm=step.right)

    def _start(self, commands: Commands, thread: int, threads: int) -> int:
        return (thread + 1) * self.part(commands.isa, threads) - self.reserved

    def _load(self, commands: Commands, at: int, first: int, blocks: int) -> None:
        for vector in self.vectors:
            if vector >= 0:
                commands.load("ACC", at, vector + first, (1, blocks), blocks)
                at += blocks


def _joined(isa: Isa, steps: Sequence[Step]) -> list[Step]:
    """Two bounds in bytes as one step, where the instructions have that."""
    ops = isa.formats["ALU"].by_name["op"].names or {}
    made: list[Step] = []
    for step in steps:
        before = made[-1] if made else None
        if "CLIP" in ops and before and (before.op, step.op) == ("MAX", "MIN") and _byte(before) and _byte(step):
            both = np.array([before.right, step.right], np.int8).view("<i2")
            made[-1] = Step("CLIP", int(both[0]))
        else:
            made.append(step)
    return made


def _byte(step: Step) -> bool:
    return isinstance(step.right, int) and np.iinfo(np.int8).min <= step.right <= np.iinfo(np.int8).max


def _place(isa: Isa, dram: Dram, blocks: int, values: np.ndarray) -> int:
    """A number for each channel, the same in each row of a tile."""
    config = isa.config
    padded = np.zeros(blocks * config.block, np.int32)
    padded[: values.size] = values
    tiles = np.repeat(padded.reshape(blocks, 1, config.block), config.batch, axis=1)
    return dram.place("ACC", tiles)
