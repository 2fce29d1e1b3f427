"""The command buffer: instructions recorded unit by unit, their tokens, and the micro-ops that they need.

    commands = Commands(isa, dram)
    commands.load("INP", 0, address, (1, 4), 4)
    commands.signal("load", "compute")
    commands.wait("compute", "load")
    commands.gemm(commands.uops(words), …)
    address, count = commands.finish()

`wait` makes the next instruction of a unit wait for a token, `signal` makes its last one signal one; where an
instruction has that flag already, one that only carries tokens is put in. Micro-ops are recorded once: a list that was
used before keeps its position in DRAM, and, until their memory is full, its position on the chip.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from tilewright.errors import InputError
from tilewright.vta.codec import Instruction, make, pack
from tilewright.vta.dram import Dram
from tilewright.vta.isa import Isa

Words = tuple[int, ...]
#: Rounds and what a round adds to dst, src and wgt.
Loop = tuple[int, int, int, int]

ONCE: Loop = (1, 0, 0, 0)
_UNITS = ("load", "compute", "store")


@dataclass
class _Recorded:
    """An instruction that flags may still be added to."""

    name: str
    unit: str
    fields: dict[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Slice:
    """Micro-ops on the chip: the first, and the first that is not among them."""

    begin: int
    end: int


class Commands:
    """Records a program for `isa`; micro-ops, and at the end the program, are placed in `dram`."""

    def __init__(self, isa: Isa, dram: Dram) -> None:
        self.isa, self.dram = isa, dram
        self._recorded: list[_Recorded] = []
        self._last: dict[str, _Recorded] = {}
        self._waiting: dict[str, set[str]] = {unit: set() for unit in _UNITS}
        self._resident: dict[Words, int] = {}
        self._placed: dict[Words, int] = {}
        self._used = 0
        self._ahead: list[int] | None = None

    # -------------------------------------------------------------------------------------------------- tokens
    def wait(self, unit: str, source: str) -> None:
        """The next instruction of `unit` waits for a token of its neighbour `source`."""
        flag = self._flag("pop", unit, source)
        if flag in self._waiting[unit]:
            self._carry_tokens(unit)
        self._waiting[unit].add(flag)

    def signal(self, unit: str, target: str) -> None:
        """The last instruction of `unit` signals its neighbour `target` by a token."""
        flag = self._flag("push", unit, target)
        if self._waiting[unit] or unit not in self._last or flag in self._last[unit].fields:
            self._carry_tokens(unit)
        self._last[unit].fields[flag] = 1

    @staticmethod
    def _flag(verb: str, unit: str, other: str) -> str:
        side = _UNITS.index(other) - _UNITS.index(unit)
        if abs(side) != 1:
            raise InputError(f"{unit} and {other} are no neighbours: no queue of tokens joins them")
        return f"{verb}_{'next' if side > 0 else 'prev'}"

    def _carry_tokens(self, unit: str) -> None:
        name, memory = {"load": ("LOAD", "INP"), "compute": ("LOAD", "UOP"), "store": ("STORE", "OUT")}[unit]
        self._record(name, unit, mem_id=memory)

    def _record(self, name: str, unit: str, **fields: int | str) -> None:
        waits = dict.fromkeys(sorted(self._waiting[unit]), 1)
        self._waiting[unit].clear()
        self._last[unit] = _Recorded(name, unit, {**fields, **waits})
        self._recorded.append(self._last[unit])

    # -------------------------------------------------------------------------------------------- instructions
    def load(
        self,
        memory: str,
        sram: int,
        dram: int,
        size: tuple[int, int],
        stride: int,
        pad: tuple[int, int, int, int] = (0, 0, 0, 0),
    ) -> None:
        """LOAD (rows, elements of a row), rows `stride` apart; `pad` is (rows above, below, elements left, right)."""
        unit = "load" if memory in ("INP", "WGT") else "compute"
        pads = dict(zip(("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"), pad))
        shape = {"y_size": size[0], "x_size": size[1], "x_stride": stride if size[0] > 1 else size[1]}
        self._record("LOAD", unit, mem_id=memory, sram=sram, dram=dram, **shape, **pads)

    def store(self, sram: int, dram: int, size: tuple[int, int], stride: int) -> None:
        """STORE accumulators, cut to the width of outputs."""
        shape = {"y_size": size[0], "x_size": size[1], "x_stride": stride if size[0] > 1 else size[1]}
        self._record("STORE", "store", mem_id="OUT", sram=sram, dram=dram, **shape)

    def gemm(self, uops: Slice, outer: Loop = ONCE, inner: Loop = ONCE, reset: bool = False) -> None:
        """GEMM, or zeros with `reset`."""
        factors = {
            f"{operand}_factor_{name}": loop[1 + index]
            for name, loop in (("out", outer), ("in", inner))
            for index, operand in enumerate(("dst", "src", "wgt"))
            if not reset or operand == "dst"
        }
        self._record("GEMM", "compute", reset=int(reset), **self._rounds(uops, outer, inner), **factors)

    def alu(self, op: str, uops: Slice, outer: Loop = ONCE, inner: Loop = ONCE, imm: int | None = None) -> None:
        """ALU with an immediate as the right operand, or without one with accumulators."""
        factors = {
            f"{operand}_factor_{name}": loop[1 + index]
            for name, loop in (("out", outer), ("in", inner))
            for index, operand in enumerate(("dst", "src"))
        }
        right = {} if imm is None else {"use_imm": 1, "imm": imm}
        self._record("ALU", "compute", op=op, **self._rounds(uops, outer, inner), **factors, **right)

    @staticmethod
    def _rounds(uops: Slice, outer: Loop, inner: Loop) -> dict[str, int]:
        return {"uop_begin": uops.begin, "uop_end": uops.end, "iter_out": outer[0], "iter_in": inner[0]}

    def uops(self, words: Words) -> Slice:
        """Bring micro-ops onto the chip, if they are not there; `InputError` for more than it holds."""
        depth = self.isa.memories["UOP"].depth
        if len(words) > depth:
            raise InputError(f"{len(words)} micro-ops do not fit on the chip, which holds {depth}; take smaller tiles")
        if words not in self._resident:
            if self._used + len(words) > depth:
                self._drop_uops()
            if self._ahead is not None:
                self._ahead += words
                self._resident[words] = self._used
                self._used += len(words)
                return self.uops(words)
            if words not in self._placed:
                self._placed[words] = self.dram.put("UOP", np.array(words, np.uint32))
            self.load("UOP", self._used, self._placed[words], (1, len(words)), len(words))
            self._resident[words] = self._used
            self._used += len(words)
        begin = self._resident[words]
        return Slice(begin, begin + len(words))

    def _drop_uops(self) -> None:
        """Nothing is taken to be on the chip any more; what is needed from here on is loaded where it is."""
        self._resident.clear()
        self._used, self._ahead = 0, None

    @contextmanager
    def loading_ahead(self) -> Iterator[None]:
        """New micro-ops of what is recorded within are loaded at once, where this begins, while there is room.

        A load in between would wait until all products are done, and they for it.
        """
        if self._used > self.isa.memories["UOP"].depth // 2:
            self._drop_uops()
        first, words, at = self._used, list[int](), len(self._recorded)
        self._ahead = words
        yield
        self._ahead = None
        if words:
            address = self.dram.put("UOP", np.array(words, np.uint32))
            size = {"y_size": 1, "x_size": len(words), "x_stride": len(words)}
            load = _Recorded("LOAD", "compute", {"mem_id": "UOP", "sram": first, "dram": address, **size})
            self._recorded.insert(at, load)

    # --------------------------------------------------------------------------------------------- the program
    @property
    def count(self) -> int:
        """Instructions recorded so far."""
        return len(self._recorded)

    def program(self) -> list[Instruction]:
        """The instructions recorded so far."""
        return [make(self.isa, recorded.name, **recorded.fields) for recorded in self._recorded]

    def end(self) -> None:
        """End with FINISH, behind all that was recorded."""
        for unit in ("load", "store"):
            if unit in self._last or self._waiting[unit]:
                self.signal(unit, "compute")
                self.wait("compute", unit)
        self._record("FINISH", "compute")

    def finish(self) -> tuple[int, int]:
        """`end`, and store the program: its first byte, its instructions."""
        self.end()
        program = self.program()
        return self.dram.put_bytes(pack(self.isa, program)), len(program)
