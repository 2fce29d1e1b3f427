"""The checker: refuses programs that cannot be decoded, reach out of a memory, race, or wait for ever.

The rules of one instruction are asked by the simulators as well, when they execute it.
"""

from __future__ import annotations

import numpy as np

from tilewright.errors import InputError, ProgramError
from tilewright.vta.codec import Instruction, decode_uop, unpack, uop_fields
from tilewright.vta.isa import Isa
from tilewright.vta.loops import UopMemory, dram_elements, factors, memory_of, sram_shape
from tilewright.vta.order import RaceDetector, Step, walk, where

_PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")


def check_program(isa: Isa, program: bytes, dram: np.ndarray) -> list[Instruction]:
    """The instructions of a program that keeps all rules, given the bytes of DRAM at its start, micro-ops among them.

    Raises `ProgramError` with the instruction's text; its `kind` is the rule: "length", "opcode", "reserved", "field",
    "tokens", "finish", "loop", "pad", "sram", "dram", "uop", "deadlock", "leftover" or "race".
    """
    if dram.dtype != np.uint8 or dram.ndim != 1:
        raise InputError(f"DRAM is one row of bytes (uint8), not {dram.dtype} of shape {dram.shape}")
    instructions = unpack(isa, program)
    uops = UopMemory(isa)
    races = RaceDetector(isa, instructions, dram.size)
    for step in walk(isa, instructions, lambda ready: ready[0]):
        admit(isa, step, dram.size, uops, races)
        if step.instruction.name == "LOAD" and memory_of(isa, step.instruction) == "UOP":
            uops.write(step.instruction["sram"], elements(isa, "UOP", dram)[dram_elements(step.instruction)].ravel())
    return instructions


def admit(isa: Isa, step: Step, dram_bytes: int, uops: UopMemory, races: RaceDetector) -> None:
    """Refuse a step that breaks a rule in the state that the chip is in."""
    try:
        check_instruction(isa, step.instruction, dram_bytes, uops)
    except ProgramError as error:
        raise ProgramError(f"{where(isa, step.position, step.instruction)}: {error}", error.kind) from error
    races.admit(step, uops)


def elements(isa: Isa, memory: str, dram: np.ndarray) -> np.ndarray:
    """DRAM seen as elements of a memory, (number, *shape): a view, as writable as `dram` is."""
    kind = isa.memories[memory]
    whole = dram.size // kind.element_bytes
    return dram[: whole * kind.element_bytes].view(kind.dtype).reshape(whole, *kind.shape)


def check_instruction(isa: Isa, instruction: Instruction, dram_bytes: int, uops: UopMemory) -> None:
    """Refuse an instruction that reaches out of a memory or has loops or padding without meaning."""
    if instruction.name in ("LOAD", "STORE"):
        _check_transfer(isa, instruction, dram_bytes)
    elif instruction.name in ("GEMM", "ALU"):
        _check_loops(isa, instruction, uops)


def _check_transfer(isa: Isa, instruction: Instruction, dram_bytes: int) -> None:
    memory = isa.memories[memory_of(isa, instruction)]
    if instruction["x_size"] == 0:
        return
    if instruction["y_size"] == 0:
        raise ProgramError("rows without a row; let x_size be 0 as well where only tokens matter", "loop")
    if memory.name in ("UOP", "OUT") and any(instruction[pad] for pad in _PADS):
        raise ProgramError(f"{memory.name} takes no padding; only INP, WGT and ACC are padded", "pad")
    rows, columns = sram_shape(instruction)
    if instruction["sram"] + rows * columns > memory.depth:
        last = instruction["sram"] + rows * columns - 1
        raise ProgramError(f"it reaches element {last} of {memory.name}, which has {memory.depth}", "sram")
    last = instruction["dram"] + (instruction["y_size"] - 1) * instruction["x_stride"] + instruction["x_size"] - 1
    if (last + 1) * memory.element_bytes > dram_bytes:
        there = dram_bytes // memory.element_bytes
        raise ProgramError(
            f"it reaches element {last} in DRAM, where {there} of {memory.element_bytes} bytes are", "dram"
        )


def _check_loops(isa: Isa, instruction: Instruction, uops: UopMemory) -> None:
    begin, end = instruction["uop_begin"], instruction["uop_end"]
    if begin >= end or instruction["iter_out"] == 0 or instruction["iter_in"] == 0:
        raise ProgramError("it has no step: uop_begin < uop_end, iter_out > 0 and iter_in > 0 are needed", "loop")
    if instruction.name == "ALU" and instruction["reset"]:
        raise ProgramError("reset belongs to GEMM; for zeros use MIN and MAX with an immediate, or GEMM", "field")
    if end > uops.words.size:
        raise ProgramError(f"uop_end is {end}, and {uops.words.size} micro-ops have room", "uop")
    if not uops.loaded[begin:end].all():
        missing = begin + int(np.argmin(uops.loaded[begin:end]))
        raise ProgramError(f"micro-op {missing} was never loaded; LOAD it into UOP first", "uop")
    _check_uops(isa, uops.words[begin:end])
    used = ["ACC"]
    if instruction.name == "ALU":
        used += [] if instruction["use_imm"] else ["ACC"]
    elif not instruction["reset"]:
        used += ["INP", "WGT"]
    rounds = instruction["iter_out"] - 1, instruction["iter_in"] - 1
    fields = zip(("dst", "src", "wgt"), used, uop_fields(isa, uops.words[begin:end]), factors(instruction))
    for name, memory, base, (by_outer, by_inner) in fields:
        last, depth = int(base.max()) + rounds[0] * by_outer + rounds[1] * by_inner, isa.memories[memory].depth
        if last >= depth:
            raise ProgramError(f"{name} reaches element {last} of {memory}, which has {depth}", "sram")


def _check_uops(isa: Isa, words: np.ndarray) -> None:
    """Refuse micro-ops with bits that belong to no field."""
    strange = words & ~words.dtype.type(isa.uop.mask)
    if strange.any():
        decode_uop(isa, int(words[np.flatnonzero(strange)[0]]))
