"""The instructions of the accelerator as one table, from which all that reads or writes instructions is made.

Rows are packed from bit 0 upwards; an instruction has two words of 64 bits, and no field crosses from one to the other.
At the default configuration this is the classic encoding, bit for bit. Where fields do not fit, `Isa` refuses. Rows and
operations that later versions added say since when; version 3 has everything twice as wide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tilewright.errors import UserError
from tilewright.vta.config import EXTENDED, WIDE, Config

Width = int | Callable[[Config], int]

#: Words of an instruction; it has two. A micro-op has half a word. Versions 1 and 2, and version 3.
_WORD_BITS = {1: 64, EXTENDED: 64, WIDE: 128}
#: Bits of an address on the chip: version 2 takes two of them for the number that pads.
_SRAM_BITS = {1: 16, EXTENDED: 14, WIDE: 24}

#: Memories by the number that LOAD and STORE have for them.
MEMORY_IDS = {"UOP": 0, "WGT": 1, "INP": 2, "ACC": 3, "OUT": 4, "ACC_8BIT": 5}
ALU_OPS = {"MIN": 0, "MAX": 1, "ADD": 2, "SHR": 3, "MUL": 4, "CLIP": 5, "MOV": 6, "MUL8": 7}
_CLASSIC_OPS = {name: number for name, number in ALU_OPS.items() if number <= ALU_OPS["MUL"]}
OPCODES = {"LOAD": 0, "STORE": 1, "GEMM": 2, "FINISH": 3, "ALU": 4}
FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")


@dataclass(frozen=True)
class Row:
    """A line of the table: a field, how many bits it has, and what its values are called."""

    name: str
    width: Width
    meaning: str
    names: Mapping[str, int] | None = None
    signed: bool = False
    since: int = 1


def _wide(bits: int) -> Callable[[Config], int]:
    """So many bits, and half as many more in the wide encoding."""
    return lambda config: bits * 3 // 2 if config.isa_version >= WIDE else bits


#: Stands where the second word begins.
_SECOND_WORD = Row("", 0, "")

_HEAD = (
    Row("opcode", 3, "which instruction", OPCODES),
    Row("pop_prev", 1, "wait for a token of the unit before"),
    Row("pop_next", 1, "wait for a token of the unit behind"),
    Row("push_prev", 1, "signal the unit before by a token at the end"),
    Row("push_next", 1, "signal the unit behind by a token at the end"),
)


def _transfer(memories: tuple[str, ...]) -> tuple[Row, ...]:
    return (
        *_HEAD,
        Row("mem_id", 3, "the memory on the chip", {name: MEMORY_IDS[name] for name in memories}),
        Row("sram", lambda c: _SRAM_BITS[c.isa_version], "its first element"),
        Row("dram", 32, "the first element in DRAM, counted in elements of this memory"),
        Row("pad_value", 8, "the number that pads", signed=True, since=EXTENDED),
        _SECOND_WORD,
        Row("y_size", _wide(16), "rows"),
        Row("x_size", _wide(16), "elements of a row; 0: only tokens"),
        Row("x_stride", _wide(16), "elements from row to row in DRAM"),
        Row("y_pad_0", _wide(4), "rows of padding before"),
        Row("y_pad_1", _wide(4), "rows of padding behind"),
        Row("x_pad_0", _wide(4), "elements of padding before each row"),
        Row("x_pad_1", _wide(4), "elements of padding behind each row"),
    )


_LOOPS = (
    *_HEAD,
    Row("reset", 1, "set the accumulators to zero (GEMM only)"),
    Row("uop_begin", lambda c: c.log_uop_depth, "the first micro-op"),
    Row("uop_end", lambda c: c.log_uop_depth + 1, "the first that is not executed any more"),
    Row("iter_out", _wide(14), "rounds of the outer loop"),
    Row("iter_in", _wide(14), "rounds of the inner loop"),
    _SECOND_WORD,
    Row("dst_factor_out", lambda c: c.log_acc_depth, "what an outer round adds to dst"),
    Row("dst_factor_in", lambda c: c.log_acc_depth, "what an inner round adds to dst"),
)

_TABLE: dict[str, tuple[Row, ...]] = {
    "LOAD": _transfer(("UOP", "WGT", "INP", "ACC", "ACC_8BIT")),
    "STORE": _transfer(("OUT",)),
    "GEMM": (
        *_LOOPS,
        Row("src_factor_out", lambda c: c.log_inp_depth, "what an outer round adds to src"),
        Row("src_factor_in", lambda c: c.log_inp_depth, "what an inner round adds to src"),
        Row("wgt_factor_out", lambda c: c.log_wgt_depth, "what an outer round adds to wgt"),
        Row("wgt_factor_in", lambda c: c.log_wgt_depth, "what an inner round adds to wgt"),
    ),
    "FINISH": _HEAD,
    "ALU": (
        *_LOOPS,
        Row("src_factor_out", lambda c: c.log_acc_depth, "what an outer round adds to src"),
        Row("src_factor_in", lambda c: c.log_acc_depth, "what an inner round adds to src"),
        Row("op", 3, "what is computed", ALU_OPS),
        Row("use_imm", 1, "the right operand is imm, not accumulators"),
        Row("imm", _wide(16), "the right operand", signed=True),
    ),
}

_UOP = (
    Row("dst", lambda c: c.log_acc_depth, "the accumulators that change"),
    Row("src", lambda c: max(c.log_acc_depth, c.log_inp_depth), "inputs (GEMM) or accumulators (ALU) that are read"),
    Row("wgt", lambda c: c.log_wgt_depth, "the weights"),
)


@dataclass(frozen=True)
class Field:
    """A field at its position: bits `low` to `high`, both counted in."""

    name: str
    low: int
    width: int
    meaning: str
    names: Mapping[str, int] | None
    signed: bool

    @property
    def high(self) -> int:
        """The last bit."""
        return self.low + self.width - 1

    @property
    def range(self) -> tuple[int, int]:
        """The least and the largest value."""
        return (-(1 << self.width - 1), (1 << self.width - 1) - 1) if self.signed else (0, (1 << self.width) - 1)


@dataclass(frozen=True)
class Format:
    """An instruction, or the micro-op: its fields at their positions within `bits` bits."""

    name: str
    bits: int
    fields: tuple[Field, ...]

    @cached_property
    def by_name(self) -> dict[str, Field]:
        """Fields by their names."""
        return {field.name: field for field in self.fields}

    @cached_property
    def mask(self) -> int:
        """The bits that belong to some field."""
        return sum(((1 << field.width) - 1) << field.low for field in self.fields)


@dataclass(frozen=True)
class Memory:
    """A memory as instructions see it: `depth` elements on the chip, each of `shape` numbers; in DRAM of `dtype`."""

    name: str
    depth: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def element_bytes(self) -> int:
        """Bytes of an element in DRAM: the unit of DRAM addresses."""
        return int(np.prod(self.shape, dtype=int)) * self.dtype.itemsize


def _position(name: str, rows: tuple[Row, ...], bits: int, config: Config) -> Format:
    word = _WORD_BITS[config.isa_version]
    fields, at, end = [], 0, min(bits, word)
    for row in rows:
        if row is _SECOND_WORD:
            at, end = word, bits
            continue
        if row.since > config.isa_version:
            continue
        width = row.width if isinstance(row.width, int) else row.width(config)
        if at + width > end:
            raise UserError(
                f"configuration {config.name} cannot be encoded: {row.name} of {name} would be bits "
                f"{at}–{at + width - 1}, and there are {end}; take smaller memories, larger tiles{_wider(config)}"
            )
        names = _CLASSIC_OPS if row.names is ALU_OPS and config.isa_version < EXTENDED else row.names
        fields.append(Field(row.name, at, width, row.meaning, names, row.signed))
        at += width
    return Format(name, bits, tuple(fields))


def _wider(config: Config) -> str:
    """Other remedies where something does not fit."""
    return "" if config.isa_version >= WIDE else f" or ISA_VERSION {WIDE}"


class Isa:
    """The instructions of a configuration: `formats` by name, the micro-op `uop`, `memories` by name.

    `instruction_bits` are 128 (the micro-op 32) and in version 3 256 (64). Raises `UserError` where the fields of a
    configuration do not fit into them.
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config = Config() if config is None else config
        word = _WORD_BITS[config.isa_version]
        self.instruction_bits = 2 * word
        self.formats = {name: _position(name, rows, 2 * word, config) for name, rows in _TABLE.items()}
        self.uop = _position("UOP", _UOP, word // 2, config)
        tile, inp = (config.batch, config.block), np.dtype(f"<i{1 << config.log_inp_width - 3}")
        wgt = np.dtype(f"<i{1 << config.log_wgt_width - 3}")
        acc = 1 << config.log_acc_depth
        self.memories = {
            "UOP": Memory("UOP", 1 << config.log_uop_depth, (), np.dtype(f"<u{word // 16}")),
            "WGT": Memory("WGT", 1 << config.log_wgt_depth, (config.block, config.block), wgt),
            "INP": Memory("INP", 1 << config.log_inp_depth, tile, inp),
            "ACC": Memory("ACC", acc, tile, np.dtype("<i4")),
            "OUT": Memory("OUT", acc, tile, inp),
            "ACC_8BIT": Memory("ACC_8BIT", acc, tile, np.dtype("i1")),
        }
        for memory in self.memories.values():
            if memory.depth > 1 << (bits := _SRAM_BITS[config.isa_version]):
                raise UserError(
                    f"configuration {config.name} cannot be encoded: {memory.name} has {memory.depth} elements, and "
                    f"addresses have {bits} bits; take a smaller memory, larger tiles{_wider(config)}"
                )
