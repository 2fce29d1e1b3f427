"""The classic virtual machine's instructions, run over the packed functions of a library.

Values are arrays (NumPy), `ADT`s of a tag and fields, closures and storage, which is bytes that arrays are made in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.compat.relay import bytecode as b
from tilewright.compat.relay.bytecode import Bytecode, BytecodeFunction, Instruction
from tilewright.compat.runtime.array import NDArray, to_numpy
from tilewright.compat.runtime.values import ADT
from tilewright.errors import InputError, ModelError
from tilewright.runtime.memory import ALIGNMENT, address_of
from tilewright.support.dtype import DType


@dataclass(frozen=True)
class _Closure:
    """A function by number and the values that it has with it."""

    function: int
    free: Sequence[Any]


@dataclass
class _Frame:
    """A call that has not returned: its registers, the next instruction, and where the caller wants the result."""

    function: BytecodeFunction
    registers: list[Any]
    result: int
    at: int = 0


@dataclass(frozen=True)
class Input:
    """A parameter of a program, of which nothing but the name is known."""

    name: str
    shape: tuple[int, ...] = (-1,)


@dataclass
class BytecodeProgram:
    """A program with the library of its packed functions: called with the parameters of `entry` in order."""

    program: Bytecode
    library: Any
    entry: str = "main"
    _packed: list[Callable[..., Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._packed = self._packed or [self.library[name] for name in self.program.packed]

    @property
    def inputs(self) -> list[Input]:
        """The parameters."""
        return [Input(name) for name in self.program.function(self.entry).params]

    def entered_at(self, name: str) -> BytecodeProgram:
        """The program entered at another function."""
        return BytecodeProgram(self.program, self.library, name, self._packed)

    def __call__(self, *args: Any) -> Any:
        """The result of a call: an array, or an `ADT` of such. Raises `InputError` for another number of arguments."""
        function = self.program.function(self.entry)
        if len(args) != len(function.params):
            raise InputError(f"{self.entry} takes {len(function.params)} values, {len(args)} given")
        return _Machine(self.program, self._packed).run(function, [_given(value) for value in args])


def _given(value: Any) -> Any:
    """An argument as a value of the machine."""
    if isinstance(value, list | tuple):
        return ADT(getattr(value, "tag", 0), [_given(item) for item in value])
    return np.asarray(to_numpy(value), order="C")  # of no dimensions, too


class _Machine:
    """One run."""

    def __init__(self, program: Bytecode, packed: Sequence[Callable[..., Any]]) -> None:
        self.program, self.packed = program, packed
        self.frames: list[_Frame] = []

    def run(self, function: BytecodeFunction, args: Sequence[Any]) -> Any:
        """The result of `function`."""
        self._enter(function, args, -1)
        while True:
            frame = self.frames[-1]
            if not 0 <= frame.at < len(frame.function.code):
                raise ModelError(f"the program runs beyond the end of {frame.function.name}")
            one = frame.function.code[frame.at]
            if one.operation == b.RET:
                value = frame.registers[one.fields[0]]
                self.frames.pop()
                if not self.frames:
                    return value
                self.frames[-1].registers[frame.result] = value
                continue
            step = self._step(frame, one)
            frame.at += step

    def _enter(self, function: BytecodeFunction, args: Sequence[Any], result: int) -> None:
        registers = [*args, *[None] * (max(function.registers, len(args)) - len(args))]
        self.frames.append(_Frame(function, registers, result))

    def _step(self, frame: _Frame, one: Instruction) -> int:
        """Do one instruction; by how much the next one is further."""
        f, r = one.fields, frame.registers
        if one.operation == b.GOTO:
            return f[0]
        if one.operation == b.IF:
            return f[2] if _scalar(r[f[0]]) == _scalar(r[f[1]]) else f[3]
        if one.operation == b.INVOKE:
            self._enter(self.program.functions[f[0]], [r[position] for position in f[3:]], f[2])
        elif one.operation == b.INVOKE_CLOSURE:
            closure = r[f[0]]
            args = [*closure.free, *[r[position] for position in f[3:]]]
            self._enter(self.program.functions[closure.function], args, f[2])
        elif one.operation == b.INVOKE_PACKED:
            self.packed[f[0]](
                *[NDArray.from_numpy(x, copy=False) for x in _leaves([r[position] for position in f[3:]])]
            )
        elif one.operation == b.FATAL:
            raise ModelError(f"the program came to an end that is none, in {frame.function.name}: no case matched")
        elif one.operation == b.KILL_REGISTER:
            r[f[0]] = None
        else:
            position, value = self._value(one.operation, f, r)
            r[position] = value
        return 1

    def _value(self, operation: int, f: Sequence[int], r: Sequence[Any]) -> tuple[int, Any]:
        """The register that an instruction writes, and what."""
        if operation == b.LOAD_CONST:
            return f[-1], self.program.constants[f[0]]
        if operation == b.ALLOC_TENSOR:
            return f[6], _tensor(r[f[0]], _scalar(r[f[1]]), f[7:], _dtype(*f[2:5]))
        if operation == b.ALLOC_TENSOR_REG:
            shape = [int(size) for size in np.atleast_1d(r[f[2]])]
            return f[6], _tensor(r[f[0]], _scalar(r[f[1]]), shape, _dtype(*f[3:6]))
        return _VALUES[operation](f, r)


def _storage(f: Sequence[int], r: Sequence[Any]) -> tuple[int, Any]:
    if len(f) == 7 or not f[6]:
        return (f[6] if len(f) == 7 else f[7]), _bytes(_scalar(r[f[0]]))
    size = int(np.prod(f[8:], dtype=np.int64)) * _dtype(*f[2:5]).itemsize
    return f[7], _bytes(size)


def _bytes(size: int) -> np.ndarray[Any, Any]:
    """So much memory, aligned as kernels like it."""
    memory = np.empty(size + ALIGNMENT, np.uint8)
    skip = -address_of(memory) % ALIGNMENT
    return memory[skip : skip + size]


def _tensor(storage: np.ndarray[Any, Any], offset: int, shape: Sequence[int], dtype: DType) -> np.ndarray[Any, Any]:
    """An array in the bytes of a storage."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if offset + size > storage.size:
        raise ModelError(f"the program puts an array of {size} bytes into a storage of {storage.size}")
    return storage[offset : offset + size].view(dtype.numpy).reshape(tuple(shape))


def _dtype(code: int, bits: int, lanes: int) -> DType:
    kinds = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}
    if (code, bits) == (1, 1):
        return DType("bool")
    if code not in kinds or lanes != 1:
        raise ModelError(f"the program makes arrays of the unknown type {code}, {bits} bits, {lanes} lanes")
    return DType(f"{kinds[code]}{bits}")


def _scalar(value: Any) -> int:
    """The integer that an array of one element holds."""
    return int(np.asarray(value).reshape(-1)[0])


def _leaves(values: Sequence[Any]) -> list[Any]:
    """Arrays, those within `ADT`s in their order."""
    return [leaf for value in values for leaf in (_leaves(value) if isinstance(value, ADT) else [value])]


_VALUES: dict[int, Callable[[Sequence[int], Sequence[Any]], tuple[int, Any]]] = {
    b.MOVE: lambda f, r: (f[1], r[f[0]]),
    b.ALLOC_ADT: lambda f, r: (f[2], ADT(f[0], [r[position] for position in f[3:]])),
    b.ALLOC_CLOSURE: lambda f, r: (f[2], _Closure(f[0], [r[position] for position in f[3:]])),
    b.GET_FIELD: lambda f, r: (f[2], r[f[0]][f[1]]),
    b.GET_TAG: lambda f, r: (f[1], np.array([r[f[0]].tag], np.int32)),
    b.LOAD_CONSTI: lambda f, r: (f[1], np.array([f[0]], np.int64)),
    b.ALLOC_STORAGE: _storage,
    b.SHAPE_OF: lambda f, r: (f[1], np.array(r[f[0]].shape, np.int64)),
    b.RESHAPE_TENSOR: lambda f, r: (f[2], r[f[0]].reshape([int(size) for size in np.atleast_1d(r[f[1]])])),
    b.DEVICE_COPY: lambda f, r: (f[3], r[f[0]].copy()),
}
