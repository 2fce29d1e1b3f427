"""VTA as a memory-mapped device of a board under qemu: its registers, its programs, its time beside the processor's.

The board's RAM is a file that this process maps as well. A debugger stops the processor at each access to the control
register, which is what a device on its bus would see; what the accelerator does then happens in the same RAM.

Time is a simulation of discrete events on one clock. The processor takes one cycle an instruction, which qemu counts
exactly; the accelerator takes the cycles of its cycle simulator. A launch begins at the instruction that writes the
control register. A read of it while a program runs is a wait: it returns when the program has ended, and the time until
then is the processor's waiting.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.board.debugger import Debugger
from tilewright.board.timeline import Span, Timeline
from tilewright.errors import InputError
from tilewright.runtime.memory import Array
from tilewright.vta.codec import Instruction, make, pack, unpack
from tilewright.vta.config import Config
from tilewright.vta.cycle.chip import simulate
from tilewright.vta.dram import Dram
from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import MEMORY_IDS, Isa
from tilewright.vta.native import NativeDriver
from tilewright.vta.registers import REGISTERS

_RUNNING, _FINISHED = 1, 2
_CONTROL, _CYCLES = REGISTERS["control"] // 4, REGISTERS["cycles"] // 4


@dataclass(frozen=True)
class Clocks:
    """Cycles a microsecond of the processor and of VTA: both are logic of one small FPGA, as on VTA's first board."""

    processor: float = 100.0
    vta: float = 100.0


class VtaDevice:
    """The accelerator of a configuration in the RAM of a board, whose first byte has the address `origin`."""

    def __init__(
        self, config: Config, ram: Array, origin: int, registers: int, clocks: Clocks, names: Sequence[str] = ()
    ) -> None:
        """`registers` is the address of the first; `names` are those of the launches of a run, in order."""
        self.isa, self.clocks, self._origin, self._names = Isa(config), clocks, origin, names
        self.address = registers
        first = registers - origin
        self._registers = ram[first : first + 4 * len(REGISTERS)].view("<u4")
        dram = Dram(self.isa, 0)
        dram.data = ram  # type: ignore[assignment]
        self._driver, self._hardware = NativeDriver(self.isa, dram), Hardware()
        self._cycles: dict[tuple[bytes, int], int] = {}
        self._waited, self._ends = 0.0, 0.0
        self._spans: list[Span] = []
        self._launches = 0

    def run(self, debugger: Debugger) -> None:
        """Let the processor run to the end, and be the device that it drives."""
        debugger.watch(self.address)
        while (stop := debugger.resume()) is not None:
            now = debugger.instructions() / self.clocks.processor + self._waited
            if not stop.writes:
                self._wait(now)
            debugger.step(self.address)
            if stop.writes and self._registers[_CONTROL] & _RUNNING:
                self._launch(now)

    def timeline(self, first: int, count: int) -> Timeline:
        """The timeline of the `count` instructions after the first `first`."""
        start = first / self.clocks.processor
        spans = [Span(s.track, s.name, (s.start - start) / 1e6, (s.end - start) / 1e6) for s in self._spans]
        return Timeline(tuple(spans), (count / self.clocks.processor + self._waited) / 1e6)

    def _wait(self, now: float) -> None:
        """The time until the program has ended is the processor's waiting, in microseconds."""
        if not self._registers[_CONTROL] & _RUNNING:
            return
        if now < self._ends:
            self._spans.append(Span("processor", "waits for VTA", now, self._ends))
            self._waited += self._ends - now
        self._registers[_CONTROL] = _FINISHED

    def _launch(self, now: float) -> None:
        """Execute the program that the registers describe; it ends after as many cycles as it takes."""
        value = {name: int(self._registers[offset // 4]) for name, offset in REGISTERS.items()}
        bases = {name: value[name] - self._origin for name in ("UOP", "INP", "WGT", "ACC", "OUT")}
        at, count = value["instructions"] - self._origin, value["count"]
        program = relocated(self.isa, unpack(self.isa, self._driver.fetch(at, count)), bases)
        data = pack(self.isa, program)
        if (data, at) not in self._cycles:
            dram = self._driver.dram.data
            self._cycles[data, at] = simulate(self.isa, program, dram, self._hardware, at).usage().cycles
        cycles = self._cycles[data, at]
        self._driver.execute(data)
        self._registers[_CYCLES] = cycles
        self._ends = now + cycles / self.clocks.vta
        name = self._names[self._launches % len(self._names)] if self._names else f"{count} instructions"
        self._spans.append(Span("VTA", name, now, self._ends))
        self._launches += 1


def relocated(isa: Isa, program: Sequence[Instruction], bases: Mapping[str, int]) -> list[Instruction]:
    """A program whose addresses count from the beginning of DRAM, in place of the bytes `bases` of each memory.

    What STORE wrote and ACC_8BIT reads begins where outputs do. Raises `InputError` where a base is no whole element.
    """
    names = {number: name for name, number in MEMORY_IDS.items()}
    moved = []
    for instruction in program:
        if instruction.name not in ("LOAD", "STORE") or not instruction["x_size"]:
            moved.append(instruction)
            continue
        memory = names[instruction["mem_id"]]
        base, size = bases["OUT" if memory == "ACC_8BIT" else memory], isa.memories[memory].element_bytes
        if base % size:
            raise InputError(f"{memory} begins at byte {base} of the memory, which is no multiple of {size}")
        fields: dict[str, Any] = {name: value for name, value in instruction.values if name != "opcode"}
        moved.append(make(isa, instruction.name, **{**fields, "dram": fields["dram"] + base // size}))
    return moved


def configuration(figures: Sequence[tuple[str, int]]) -> Config:
    """The configuration of a target's figures."""
    return Config.from_json(json.dumps(dict(figures)))


def memory_of(path: str, size: int) -> Array:
    """The bytes of a board's RAM, in the file that qemu maps too."""
    return np.memmap(path, np.uint8, "r+", shape=(size,))
