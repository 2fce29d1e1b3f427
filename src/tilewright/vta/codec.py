"""Instructions as values, as bits and as text, all by the table of `vta/isa.py`.

The text of an instruction is its name, the names of the flags that are set, and `field=value` for the other fields that
are not zero: `LOAD pop_next mem_id=INP sram=16 y_size=1 x_size=4 x_stride=4`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.errors import ProgramError
from tilewright.vta.isa import OPCODES, Field, Format, Isa


@dataclass(frozen=True)
class Instruction:
    """An instruction or a micro-op: the format's name, and the value of every field in the order of the table."""

    name: str
    values: tuple[tuple[str, int], ...]

    def __getitem__(self, field: str) -> int:
        return dict(self.values)[field]


def make(isa: Isa, name: str, /, **fields: int | str) -> Instruction:
    """An instruction by the values of its fields; those not given are 0, values with names may be given by these.

    Raises `ProgramError` for an instruction, field or value that the table does not have.
    """
    if name not in isa.formats:
        raise ProgramError(f"there is no instruction {name!r}; there are {', '.join(isa.formats)}", "opcode")
    return _make(isa.formats[name], {**fields, "opcode": OPCODES[name]})


def make_uop(isa: Isa, dst: int = 0, src: int = 0, wgt: int = 0) -> int:
    """The bits of a micro-op: indices of accumulators, of inputs (or accumulators, for ALU), of weights."""
    return encode(isa, _make(isa.uop, {"dst": dst, "src": src, "wgt": wgt}))


def _make(form: Format, given: Mapping[str, int | str]) -> Instruction:
    if strange := [key for key in given if key not in form.by_name]:
        raise ProgramError(f"{form.name} has no field {strange[0]!r}; it has {', '.join(form.by_name)}", "field")
    first = {f.name: min(f.names.values()) if f.names else 0 for f in form.fields}
    return Instruction(
        form.name, tuple((f.name, _value(form, f, given.get(f.name, first[f.name]))) for f in form.fields)
    )


def _value(form: Format, field: Field, value: int | str) -> int:
    """The number that a value stands for, if the field can hold it."""
    if isinstance(value, str):
        if field.names is None or value not in field.names:
            known = f"one of {', '.join(field.names)}" if field.names else "a number"
            raise ProgramError(f"{field.name} of {form.name} is {value!r}; use {known}", "field")
        return field.names[value]
    low, high = field.range
    if not low <= value <= high:
        raise ProgramError(f"{field.name} of {form.name} is {value}; it holds {low} to {high}", "field")
    if field.names is not None and value not in field.names.values():
        known = ", ".join(f"{number} ({name})" for name, number in field.names.items())
        raise ProgramError(f"{field.name} of {form.name} is {value}, which has no meaning; there are {known}", "field")
    return int(value)


def encode(isa: Isa, instruction: Instruction) -> int:
    """The bits of an instruction or micro-op as one integer."""
    form = isa.uop if instruction.name == "UOP" else isa.formats[instruction.name]
    return sum(
        (value & (1 << form.by_name[name].width) - 1) << form.by_name[name].low for name, value in instruction.values
    )


def decode(isa: Isa, word: int) -> Instruction:
    """The instruction that the bits of one stand for; `ProgramError` where they stand for none."""
    opcode = word & isa.formats["FINISH"].by_name["opcode"].range[1]
    name = next((name for name, number in OPCODES.items() if number == opcode), None)
    if name is None:
        raise ProgramError(f"{word:#034x} has the opcode {opcode}, which no instruction has", "opcode")
    return _decode(isa.formats[name], word)


def decode_uop(isa: Isa, word: int) -> Instruction:
    """The micro-op that the bits of one stand for; `ProgramError` where bits are set that belong to no field."""
    return _decode(isa.uop, word)


def _decode(form: Format, word: int) -> Instruction:
    if word < 0 or word & ~form.mask:
        raise ProgramError(
            f"{word:#x} is no {form.name}: bits {word & ~form.mask:#x} belong to no field and must be 0", "reserved"
        )
    values = {}
    for field in form.fields:
        value = word >> field.low & (1 << field.width) - 1
        values[field.name] = value - (1 << field.width) if field.signed and value >> field.width - 1 else value
    return _make(form, values)


def uop_fields(isa: Isa, words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """dst, src and wgt of many micro-ops at once, as int64."""
    wide = words.astype(np.int64)
    dst, src, wgt = (wide >> field.low & (1 << field.width) - 1 for field in isa.uop.fields)
    return dst, src, wgt


def pack(isa: Isa, program: Iterable[Instruction]) -> bytes:
    """A program as the accelerator fetches it: 16 bytes an instruction (32 in version 3), the lowest first."""
    return b"".join(encode(isa, instruction).to_bytes(isa.instruction_bits // 8, "little") for instruction in program)


def unpack(isa: Isa, data: bytes) -> list[Instruction]:
    """The instructions of a program's bytes; `ProgramError` names the first that cannot be decoded."""
    size = isa.instruction_bits // 8
    if len(data) % size:
        raise ProgramError(f"a program has {size} bytes an instruction, and this one {len(data)}", "length")
    words = [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
    program = []
    for position, word in enumerate(words):
        try:
            program.append(decode(isa, word))
        except ProgramError as error:
            raise ProgramError(f"instruction {position}: {error}", error.kind) from error
    return program


def disassemble(isa: Isa, instruction: Instruction) -> str:
    """One line of text, which `assemble` reads back."""
    form = isa.uop if instruction.name == "UOP" else isa.formats[instruction.name]
    parts = [instruction.name]
    for field in form.fields:
        value = instruction[field.name]
        if field.name == "opcode" or (value == 0 and field.names is None):
            continue
        named = {number: name for name, number in (field.names or {}).items()}
        parts.append(field.name if field.width == 1 else f"{field.name}={named.get(value, value)}")
    return " ".join(parts)


def assemble(isa: Isa, text: str) -> list[Instruction]:
    """The instructions of a text, one a line; `#` begins a comment. `ProgramError` names the line that is none."""
    program = []
    for number, line in enumerate(text.splitlines(), 1):
        if not (words := line.partition("#")[0].split()):
            continue
        try:
            program.append(make(isa, words[0], **dict(map(_assignment, words[1:]))))
        except ProgramError as error:
            raise ProgramError(f"line {number}: {error}", error.kind) from error
    return program


def _assignment(word: str) -> tuple[str, int | str]:
    name, equals, value = word.partition("=")
    if not equals:
        return name, 1
    return name, int(value) if value.removeprefix("-").isdecimal() else value


def listing(isa: Isa, program: Sequence[Instruction]) -> str:
    """A program as text, one instruction a line."""
    return "\n".join(disassemble(isa, instruction) for instruction in program)
