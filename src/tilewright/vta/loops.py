"""Accesses of an instruction: the elements that LOAD and STORE move, and the steps of the loops of GEMM and ALU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.vta.codec import Instruction, uop_fields
from tilewright.vta.isa import Isa

#: Steps that are worked on at once: enough to keep NumPy busy, few enough that their tiles stay small.
_AT_ONCE = 4096

#: An access: the memory ("DRAM" by bytes), which elements, and whether they are written.
Access = tuple[str, np.ndarray, bool]


class UopMemory:
    """The micro-ops on the chip, and which of them were ever loaded."""

    def __init__(self, isa: Isa) -> None:
        self.words = np.zeros(isa.memories["UOP"].depth, isa.memories["UOP"].dtype)
        self.loaded = np.zeros(isa.memories["UOP"].depth, bool)

    def write(self, first: int, words: np.ndarray) -> None:
        """Micro-ops from DRAM come to `first` and behind."""
        self.words[first : first + words.size] = words
        self.loaded[first : first + words.size] = True


def memory_of(isa: Isa, instruction: Instruction) -> str:
    """The memory that a LOAD or STORE names."""
    names = isa.formats[instruction.name].by_name["mem_id"].names or {}
    return next(name for name, number in names.items() if number == instruction["mem_id"])


def sram_shape(instruction: Instruction) -> tuple[int, int]:
    """Rows and elements of a row that a LOAD or STORE covers on the chip, padding too; (0, 0) for only tokens."""
    if instruction["x_size"] == 0:
        return 0, 0
    rows = instruction["y_pad_0"] + instruction["y_size"] + instruction["y_pad_1"]
    return rows, instruction["x_pad_0"] + instruction["x_size"] + instruction["x_pad_1"]


def dram_elements(instruction: Instruction) -> np.ndarray:
    """Addresses, in elements, of what a LOAD or STORE moves: `y_size` × `x_size`."""
    rows = instruction["dram"] + np.arange(instruction["y_size"])[:, None] * instruction["x_stride"]
    return rows + np.arange(instruction["x_size"])


def steps(isa: Isa, instruction: Instruction, uops: UopMemory) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """dst, src and wgt of the steps of a GEMM or ALU in their order, some thousand at once.

    The outer loop is outermost and the micro-ops are innermost; what a round adds is in the factors.
    """
    begin, end = instruction["uop_begin"], instruction["uop_end"]
    base = uop_fields(isa, uops.words[begin:end])
    inner = instruction["iter_in"] * (end - begin)
    for first in range(0, instruction["iter_out"] * inner, _AT_ONCE):
        step = np.arange(first, min(first + _AT_ONCE, instruction["iter_out"] * inner))
        outer_round, rest = np.divmod(step, inner)
        inner_round, uop = np.divmod(rest, end - begin)
        dst, src, wgt = (
            start[uop] + outer_round * by_outer + inner_round * by_inner
            for start, (by_outer, by_inner) in zip(base, factors(instruction))
        )
        yield dst, src, wgt


def factors(instruction: Instruction) -> list[tuple[int, int]]:
    """The increments of dst, src and wgt by an outer and an inner iteration; ALU has no weights."""
    known = dict(instruction.values)
    return [(known.get(f"{x}_factor_out", 0), known.get(f"{x}_factor_in", 0)) for x in ("dst", "src", "wgt")]


def accesses(isa: Isa, instruction: Instruction, uops: UopMemory) -> Iterator[Access]:
    """The reads and writes of an instruction, but for micro-ops, which one unit alone has."""
    if instruction.name in ("LOAD", "STORE"):
        yield from _transfer_accesses(isa, instruction)
    elif instruction.name in ("GEMM", "ALU"):
        for dst, src, wgt in steps(isa, instruction, uops):
            yield "ACC", dst, True
            if instruction.name == "ALU" and not instruction["use_imm"]:
                yield "ACC", src, False
            if instruction.name == "GEMM" and not instruction["reset"]:
                yield "INP", src, False
                yield "WGT", wgt, False


def _transfer_accesses(isa: Isa, instruction: Instruction) -> Iterator[Access]:
    rows, columns = sram_shape(instruction)
    if not rows:
        return
    memory = isa.memories[memory_of(isa, instruction)]
    storing = instruction.name == "STORE"
    starts = dram_elements(instruction).reshape(-1, 1) * memory.element_bytes
    yield "DRAM", (starts + np.arange(memory.element_bytes)).ravel(), storing
    if memory.name != "UOP":
        chip = "ACC" if memory.name in ("OUT", "ACC_8BIT") else memory.name
        yield chip, instruction["sram"] + np.arange(rows * columns), not storing
