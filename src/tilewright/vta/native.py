"""The functional simulator at native speed: programs decoded as arrays, and executed by code that Tilewright compiled.

Results and counters are those of `functional.Simulator`, and so is what is refused, but for races: a program is
executed in one order. Check a program once with `check_program`, or run it on the driver "checked", to find these.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.codegen.function_info import function_info
from tilewright.codegen.llvm import compile_object, emit_module
from tilewright.errors import InputError, InternalError, ProgramError
from tilewright.runtime.module import Module
from tilewright.target import Target
from tilewright.vta.check import check_instruction
from tilewright.vta.codec import Instruction, unpack
from tilewright.vta.config import Config
from tilewright.vta.dram import Dram
from tilewright.vta.driver import Driver
from tilewright.vta.isa import MEMORY_IDS, Isa
from tilewright.vta.loops import UopMemory
from tilewright.vta.native_kernel import COLUMNS, COUNTED, kernel
from tilewright.vta.order import walk, where

_MOST_BYTES = (1 << 31) - 1


@dataclass(frozen=True)
class Decoded:
    """A program whose tokens are in order: its instructions as they will be executed, and as a table."""

    instructions: tuple[Instruction, ...]
    positions: tuple[int, ...]
    table: np.ndarray


@lru_cache(maxsize=64)
def decoded(config: Config, program: bytes) -> Decoded:
    """Decode a program; `ProgramError` where that fails, or its tokens do not allow any order to the end."""
    isa = Isa(config)
    instructions = unpack(isa, program)
    steps = list(walk(isa, instructions, lambda ready: ready[0]))
    table = np.zeros((len(steps), len(COLUMNS)), np.int32)
    for row, step in zip(table, steps):
        for name, value in step.instruction.values:
            row[COLUMNS.index(name)] = value if value < 1 << 31 else -1  # such an address no DRAM here reaches
    return Decoded(tuple(s.instruction for s in steps), tuple(s.position for s in steps), table.ravel())


@lru_cache(maxsize=16)
def _compiled(config: Config) -> Any:
    target = Target.host()
    func = kernel(Isa(config), target)
    emitted = emit_module([func], target)
    code = compile_object(emitted.text, target)
    return Module(code, [function_info(func)], emitted.messages, str(target))["run"]


class NativeDriver(Driver):
    """A chip whose instructions are executed by native code."""

    def __init__(self, isa: Isa, dram: Dram) -> None:
        super().__init__(isa, dram)
        if dram.data.size > _MOST_BYTES:
            raise InputError(f"the native simulator has at most {_MOST_BYTES} bytes of DRAM, not {dram.data.size}")
        self._run = _compiled(isa.config)
        tile, depth = isa.config.batch * isa.config.block, {m.name: m.depth for m in isa.memories.values()}
        self.inp, self.acc = np.zeros(depth["INP"] * tile, np.int32), np.zeros(depth["ACC"] * tile, np.int32)
        self.wgt = np.zeros(depth["WGT"] * isa.config.block**2, np.int32)
        self.uop, self.uop_loaded = np.zeros(depth["UOP"], np.int64), np.zeros(depth["UOP"], np.int32)

    def run(self, address: int, count: int) -> Counter[str]:
        """All of a program, in one order."""
        return self.execute(self.fetch(address, count))

    def execute(self, data: bytes) -> Counter[str]:
        """All of the program `data`, wherever it lies."""
        program = decoded(self.isa.config, data)
        counted, status = np.zeros(len(COUNTED), np.int64), np.zeros(1, np.int32)
        memory = self.dram.data.view(np.int8)
        chip = (self.inp, self.wgt, self.acc, self.uop, self.uop_loaded)
        self._run(len(program.instructions), memory.size, program.table, memory, *chip, counted, status)
        new = self._counters(counted)
        self.counters += new
        if status[0] >= 0:
            self._refuse(program, int(status[0]))
        return new

    def _counters(self, counted: np.ndarray) -> Counter[str]:
        found: Counter[str] = Counter()
        for name, number in zip(COUNTED, counted.tolist()):
            if number and name in MEMORY_IDS:
                found[f"{name} bytes"] = number * self.isa.memories[name].element_bytes
            elif number:
                found[f"{name} steps"] = number
        return found

    def _refuse(self, program: Decoded, row: int) -> None:
        """Raise what the checker says of an instruction in the present state."""
        uops = UopMemory(self.isa)
        uops.words[:], uops.loaded[:] = self.uop.astype(uops.words.dtype), self.uop_loaded > 0
        instruction = program.instructions[row]
        name = where(self.isa, program.positions[row], instruction)
        try:
            check_instruction(self.isa, instruction, self.dram.data.size, uops)
        except ProgramError as error:
            raise ProgramError(f"{name}: {error}", error.kind) from error
        raise InternalError(f"{name} is refused by the native simulator, and by the checker it is not")
