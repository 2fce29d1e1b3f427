"""The interpreter of the virtual machine: one loop over the instructions, with a stack of its own.

Calls take a frame on that stack, so that Python's recursion limit plays no part; tail calls take none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.vm.instruction import Opcode
from tilewright.runtime.vm.program import Program
from tilewright.runtime.vm.value import Closure, Data, Reference

#: Calls that may be open at a time: at some 300 bytes each, a program that never ends is stopped before memory is.
MAX_FRAMES = 1_000_000

Packed = Callable[..., tuple[Any, ...]]


def execute(program: Program, packed: Sequence[Packed], constants: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """The value of the program's main function on `arguments`.

    `packed` are the compiled segments and host operators: functions of values that return the tuple of their results.
    Raises `InputError` where a match has no clause for a value, or more than `MAX_FRAMES` calls are open.
    """
    functions = program.functions
    function = functions[program.main]
    registers: list[Any] = [*arguments, *[None] * (function.registers - function.params)]
    code, position = function.code, 0
    frames: list[tuple[Any, int, list[Any], int]] = []
    while True:
        op, *x = code[position]
        position += 1
        if op == Opcode.INVOKE_PACKED:
            count = 2 + x[1]
            results = packed[x[0]](*[registers[r] for r in x[count:]])
            for register, result in zip(x[2:count], results):
                registers[register] = result
        elif op == Opcode.GET_FIELD:
            holder = registers[x[1]]
            registers[x[0]] = (holder.fields if type(holder) is Data else holder)[x[2]]
        elif op == Opcode.ALLOC_ADT:
            fields = tuple([registers[r] for r in x[2:]])
            registers[x[0]] = fields if x[1] < 0 else Data(x[1], fields)
        elif op == Opcode.IF:
            if not registers[x[0]]:
                position += x[1] - 1
        elif op == Opcode.IF_TAG:
            if registers[x[0]].tag != x[1]:
                position += x[2] - 1
        elif op == Opcode.GOTO:
            position += x[0] - 1
        elif op == Opcode.MOVE:
            registers[x[0]] = registers[x[1]]
        elif op == Opcode.LOAD_CONST:
            registers[x[0]] = constants[x[1]]
        elif op == Opcode.LOAD_CONSTI:
            registers[x[0]] = x[1]
        elif op == Opcode.KILL_REGISTER:
            registers[x[0]] = None
        elif op in _CALLS:
            if op == Opcode.INVOKE or op == Opcode.INVOKE_CLOSURE:
                if len(frames) >= MAX_FRAMES:
                    raise InputError(
                        f"the model's function {function.name!r} calls itself more than {MAX_FRAMES} times without "
                        "returning; a call whose result is returned as it is takes no space"
                    )
                frames.append((function, position, registers, x.pop(0)))
            if op == Opcode.INVOKE or op == Opcode.TAIL_INVOKE:
                function, values = functions[x[0]], [registers[r] for r in x[1:]]
            else:
                closure = registers[x[0]]
                function, values = functions[closure.function], [*closure.captured, *[registers[r] for r in x[1:]]]
            registers = [*values, *[None] * (function.registers - function.params)]
            code, position = function.code, 0
        elif op == Opcode.RET:
            value = registers[x[0]]
            if not frames:
                return value
            function, position, registers, destination = frames.pop()
            code = function.code
            registers[destination] = value
        elif op == Opcode.FATAL:
            raise InputError(
                f"the function {function.name!r} of the model matches a value that none of its clauses fits"
            )
        else:
            _RARE[op](registers, x)


def _alloc_closure(registers: list[Any], x: list[int]) -> None:
    made = Closure(x[1], ())
    made.captured = tuple([made if r == x[0] else registers[r] for r in x[2:]])
    registers[x[0]] = made


def _get_tag(registers: list[Any], x: list[int]) -> None:
    registers[x[0]] = registers[x[1]].tag


def _shape_of(registers: list[Any], x: list[int]) -> None:
    registers[x[0]] = np.asarray(np.shape(registers[x[1]]), np.int64)


def _alloc_reference(registers: list[Any], x: list[int]) -> None:
    registers[x[0]] = Reference(registers[x[1]])


def _read_reference(registers: list[Any], x: list[int]) -> None:
    registers[x[0]] = registers[x[1]].value


def _write_reference(registers: list[Any], x: list[int]) -> None:
    registers[x[1]].value = registers[x[2]]
    registers[x[0]] = ()


_CALLS = {Opcode.INVOKE, Opcode.INVOKE_CLOSURE, Opcode.TAIL_INVOKE, Opcode.TAIL_INVOKE_CLOSURE}
_RARE: dict[int, Callable[[list[Any], list[int]], None]] = {
    Opcode.ALLOC_CLOSURE: _alloc_closure,
    Opcode.GET_TAG: _get_tag,
    Opcode.SHAPE_OF: _shape_of,
    Opcode.ALLOC_REFERENCE: _alloc_reference,
    Opcode.READ_REFERENCE: _read_reference,
    Opcode.WRITE_REFERENCE: _write_reference,
}
