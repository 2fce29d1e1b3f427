"""Programs of the classic virtual machine as bytes, little-endian: what its `Executable.save` writes, read and written.

u64 magic, text version; from version 0.9 on the devices (u64 count, each i32 kind, i32 number and, in the newest, the
name of a memory) and the host's position among them (i32); names of global functions; constants (u64 count, each an
array of `support/array_format.py`, from 0.9 on with u32 0 before it) and the device of each; names of the packed
functions, and texts about them by number; the functions. A function is its name, its number of registers and of
instructions as texts, the names of its parameters, their devices, and its instructions. Each of these is a list of i64:
a checksum, the operation, its fields. A text is u64 length and bytes, a list u64 count and items."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tilewright.compat.runtime.classic_bytes import Reader, items, number, text
from tilewright.errors import ArtifactError, InputError
from tilewright.support.array_format import array_bytes

MAGIC = 0xD225DE2F4214151D
_CPU = 1

MOVE, RET, INVOKE, INVOKE_CLOSURE, INVOKE_PACKED, ALLOC_TENSOR, ALLOC_TENSOR_REG = range(7)
ALLOC_ADT, ALLOC_CLOSURE, GET_FIELD, IF, LOAD_CONST, GOTO, GET_TAG, LOAD_CONSTI, FATAL = range(7, 16)
ALLOC_STORAGE, SHAPE_OF, RESHAPE_TENSOR, DEVICE_COPY, KILL_REGISTER = range(16, 21)

#: The least number of fields of each operation.
_FIELDS = (2, 1, 3, 3, 3, 7, 7, 3, 3, 3, 4, 2, 1, 2, 2, 0, 7, 2, 3, 4, 1)


class Instruction(NamedTuple):
    """An operation and its fields, in their order in the file."""

    operation: int
    fields: tuple[int, ...]


@dataclass(frozen=True)
class BytecodeFunction:
    """One function: its parameters are its first registers."""

    name: str
    params: Sequence[str]
    registers: int
    code: Sequence[Instruction]
    devices: Sequence[int] = ()


@dataclass(frozen=True)
class Bytecode:
    """A program: what it names by number, and its functions. `devices` are kind, number and memory."""

    version: str
    globals: Sequence[str]
    constants: Sequence[np.ndarray[Any, Any]]
    packed: Sequence[str]
    functions: Sequence[BytecodeFunction]
    devices: Sequence[tuple[int, int, str]] = ((_CPU, 0, ""),)
    packed_attrs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    constant_devices: Sequence[int] = ()

    def function(self, name: str) -> BytecodeFunction:
        """The function called so. Raises `InputError` for another name."""
        if name not in self.globals:
            raise InputError(f"the program has no function {name!r}; it has: {', '.join(self.globals)}")
        return self.functions[self.globals.index(name)]


@dataclass(frozen=True)
class _Layout:
    """Differences between versions: a section of devices, and names of memories in it."""

    has_devices: bool
    has_memories: bool


def _layouts(version: str) -> list[_Layout]:
    """Those that a version may have, the newest first."""
    numbers = [int(part) for part in version.split(".")[:2] if part.isdigit()]
    if numbers < [0, 9]:
        return [_Layout(False, False)]
    plain, named = _Layout(True, False), _Layout(True, True)
    return [plain] if numbers < [0, 12] else [named, plain]


def checksum(operation: int, fields: Sequence[int]) -> int:
    """The number that stands before an instruction, which readers compare."""
    mask, key = (1 << 64) - 1, operation
    for value in fields:
        key ^= ((value & mask) + 0x9E3779B9 + (key << 6) + (key >> 2)) & mask
        key &= mask
    return key - (1 << 64) if key >> 63 else key


# ----------------------------------------------------------------------------------------------------- writing
def write_bytecode(program: Bytecode) -> bytearray:
    """The bytes of a program, in the layout of its version."""
    layout = _layouts(program.version)[0]
    out = bytearray(struct.pack("<Q", MAGIC)) + text(program.version)
    if layout.has_devices:
        out += struct.pack("<Q", len(program.devices))
        for kind, position, memory in program.devices:
            out += struct.pack("<ii", kind, position) + (text(memory) if layout.has_memories else b"")
        out += struct.pack("<i", 0)
    out += items(program.globals, text) + struct.pack("<Q", len(program.constants))
    for constant in program.constants:
        out += (struct.pack("<I", 0) if layout.has_devices else b"") + array_bytes(constant)
    device = 0 if layout.has_devices else _CPU
    out += items(program.constant_devices or [device] * len(program.constants), number)
    out += items(program.packed, text)
    out += items(list(program.packed_attrs.items()), lambda item: number(item[0]) + items(list(item[1].items()), _pair))
    out += struct.pack("<Q", len(program.functions))
    for function in program.functions:
        heading = [function.name, str(function.registers), str(len(function.code))]
        out += items(heading, text) + items(function.params, text)
        out += items(function.devices or [device] * len(function.params), number)
        for operation, fields in function.code:
            out += items([checksum(operation, fields), operation, *fields], number)
    return out


def _pair(item: tuple[str, str]) -> bytes:
    return text(item[0]) + text(item[1])


# ----------------------------------------------------------------------------------------------------- reading
def is_bytecode(data: bytes | bytearray) -> bool:
    """True if these bytes begin like a program of the classic virtual machine."""
    return bytes(data[:8]) == struct.pack("<Q", MAGIC)


def read_bytecode(data: bytes | bytearray) -> Bytecode:
    """The program in these bytes. Raises `ArtifactError` where they hold none, or a damaged one."""
    if not is_bytecode(data):
        raise ArtifactError("these bytes are no program of the virtual machine: they begin with another number")
    reader = _Reader(bytes(data))
    try:
        reader.at = 8
        version, start = reader.text(), reader.at
        failure: Exception | None = None
        for layout in _layouts(version):
            reader.at = start
            try:
                return reader.program(version, layout)
            except (struct.error, UnicodeDecodeError, ValueError, InputError, ArtifactError) as error:
                failure = failure or error
    except (struct.error, UnicodeDecodeError) as error:
        failure = error
    raise ArtifactError(f"the program of the virtual machine is damaged: {failure}")


class _Reader(Reader):
    """Reads a program."""

    def program(self, version: str, layout: _Layout) -> Bytecode:
        """All that follows the version."""
        devices: list[tuple[int, int, str]] = [(_CPU, 0, "")]
        if layout.has_devices:
            devices = self.list(lambda: (self.take("i"), self.take("i"), self.text() if layout.has_memories else ""))
            self.take("i")
        names = self.list(self.text)
        constants = self.list(lambda: self._constant(layout.has_devices))
        constant_devices = self.list(self.number)
        packed = self.list(self.text)
        attrs = dict(self.list(lambda: (self.take("Q"), dict(self.list(lambda: (self.text(), self.text()))))))
        functions = self.list(self._function)
        if self.at != len(self.data):
            raise ArtifactError(f"{len(self.data) - self.at} bytes follow it")
        if len(names) != len(functions):
            raise ArtifactError(f"it names {len(names)} functions and has {len(functions)}")
        return Bytecode(version, names, constants, packed, functions, devices, attrs, constant_devices)

    def _constant(self, is_marked: bool) -> np.ndarray[Any, Any]:
        if is_marked and self.take("I"):
            raise ArtifactError("its constants lie in a file of their own, which is not read")
        return self.array().numpy()

    def _function(self) -> BytecodeFunction:
        name, registers, count = self.list(self.text)
        params, devices = self.list(self.text), self.list(self.number)
        code = [self._instruction() for _ in range(int(count))]
        return BytecodeFunction(name, params, int(registers), code, devices)

    def _instruction(self) -> Instruction:
        found, operation, *fields = self.list(self.number)
        if not 0 <= operation < len(_FIELDS) or len(fields) < _FIELDS[operation]:
            raise ArtifactError(f"there is no operation {operation} with {len(fields)} fields")
        if found != checksum(operation, fields):
            raise ArtifactError(f"the checksum of an operation {operation} does not match")
        return Instruction(operation, tuple(fields))
