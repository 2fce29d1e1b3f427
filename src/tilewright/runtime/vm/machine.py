"""The interpreter of the virtual machine: one loop over the instructions, with a stack of its own.

Calls take a frame on that stack, so that Python's recursion limit plays no part; tail calls take none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.vm.instruction import Opcode
from tilewright.runtime.vm.program import Program, VMFunction
from tilewright.runtime.vm.value import Closure, Data, Reference

#: Calls that may be open at a time: at some 300 bytes each, a program that never ends is stopped before memory is.
MAX_FRAMES = 1_000_000

Packed = Callable[..., tuple[Any, ...]]

# Plain numbers under plain names: to look a member of an enumeration up takes longer than most instructions.
_PACKED, _IF, _GOTO, _MOVE, _RET, _FATAL, _IF_TAG, _GET_FIELD, _ALLOC_ADT = map(
    int,
    (
        Opcode.INVOKE_PACKED, Opcode.IF, Opcode.GOTO, Opcode.MOVE, Opcode.RET, Opcode.FATAL, Opcode.IF_TAG,
        Opcode.GET_FIELD, Opcode.ALLOC_ADT,
    ),
)  # fmt: skip
_LOAD_CONST = int(Opcode.LOAD_CONST)
_SETS = _LOAD_CONSTI, _KILL_REGISTER = tuple(map(int, (Opcode.LOAD_CONSTI, Opcode.KILL_REGISTER)))
_CALLS = _INVOKE, _INVOKE_CLOSURE, _TAIL_INVOKE, _TAIL_INVOKE_CLOSURE = tuple(
    map(int, (Opcode.INVOKE, Opcode.INVOKE_CLOSURE, Opcode.TAIL_INVOKE, Opcode.TAIL_INVOKE_CLOSURE))
)


#: The result of native code for a function that has none.
INTERPRETED = object()

#: Runs a function by its number on values in native code, or returns `INTERPRETED`.
Shortcut = Callable[[int, Sequence[Any]], Any]


def execute(
    program: Program,
    packed: Sequence[Packed],
    constants: Sequence[Any],
    arguments: Sequence[Any],
    shortcut: Shortcut | None = None,
) -> Any:
    """The value of the program's main function on `arguments`.

    `packed` are the compiled segments and host operators: functions of values that return the tuple of their results.
    Every call, also that of a function by itself, is offered to the `shortcut` first.
    Raises `InputError` where a match has no clause for a value, or more than `MAX_FRAMES` calls are open.
    """
    functions = program.functions
    if shortcut is not None and (value := shortcut(program.main, arguments)) is not INTERPRETED:
        return value
    function = functions[program.main]
    registers: list[Any] = [*arguments, *[None] * (function.registers - function.params)]
    steps, position = function.steps, 0
    frames: list[tuple[Any, int, list[Any], int]] = []
    while True:
        op, x = steps[position]
        position += 1
        if op == _PACKED:
            number, found, given = x
            for register, result in zip(found, packed[number](*[registers[r] for r in given])):
                registers[register] = result
        elif op == _IF:
            if not registers[x[0]]:
                position += x[1] - 1
        elif op in _CALLS:
            destination, callee, given = x
            values = [registers[r] for r in given]
            if op in (_INVOKE_CLOSURE, _TAIL_INVOKE_CLOSURE):
                closure = registers[callee]
                callee, values = closure.function, [*closure.captured, *values]
            returns = op in (_INVOKE, _INVOKE_CLOSURE)
            if shortcut is not None and (value := shortcut(callee, values)) is not INTERPRETED:
                if not returns:
                    if not frames:
                        return value
                    function, position, registers, destination = frames.pop()
                    steps = function.steps
                registers[destination] = value
                continue
            if returns:
                if len(frames) >= MAX_FRAMES:
                    raise InputError(too_deep(function))
                frames.append((function, position, registers, destination))
            function = functions[callee]
            registers = [*values, *[None] * (function.registers - function.params)]
            steps, position = function.steps, 0
        elif op == _GET_FIELD:
            holder = registers[x[1]]
            registers[x[0]] = (holder.fields if type(holder) is Data else holder)[x[2]]
        elif op == _ALLOC_ADT:
            fields = tuple([registers[r] for r in x[2:]])
            registers[x[0]] = fields if x[1] < 0 else Data(x[1], fields)
        elif op == _IF_TAG:
            if registers[x[0]].tag != x[1]:
                position += x[2] - 1
        elif op == _GOTO:
            position += x[0] - 1
        elif op == _MOVE:
            registers[x[0]] = registers[x[1]]
        elif op == _LOAD_CONST:
            registers[x[0]] = constants[x[1]]
        elif op in _SETS:
            registers[x[0]] = x[1] if op == _LOAD_CONSTI else None
        elif op == _RET:
            value = registers[x[0]]
            if not frames:
                return value
            function, position, registers, destination = frames.pop()
            steps = function.steps
            registers[destination] = value
        elif op == _FATAL:
            raise InputError(unmatched(function))
        else:
            _RARE[op](registers, x)


def too_deep(function: VMFunction) -> str:
    """The message for calls nested without end."""
    return (
        f"the model's function {function.name!r} calls itself more than {MAX_FRAMES} times without returning; "
        "a call whose result is returned as it is takes no space"
    )


def unmatched(function: VMFunction) -> str:
    """The message for a match without a clause for a value."""
    return f"the function {function.name!r} of the model matches a value that none of its clauses fits"


def _alloc_closure(registers: list[Any], x: tuple[int, ...]) -> None:
    made = Closure(x[1], ())
    made.captured = tuple([made if r == x[0] else registers[r] for r in x[2:]])
    registers[x[0]] = made


def _get_tag(registers: list[Any], x: tuple[int, ...]) -> None:
    registers[x[0]] = registers[x[1]].tag


def _shape_of(registers: list[Any], x: tuple[int, ...]) -> None:
    registers[x[0]] = np.asarray(np.shape(registers[x[1]]), np.int64)


def _alloc_reference(registers: list[Any], x: tuple[int, ...]) -> None:
    registers[x[0]] = Reference(registers[x[1]])


def _read_reference(registers: list[Any], x: tuple[int, ...]) -> None:
    registers[x[0]] = registers[x[1]].value


def _write_reference(registers: list[Any], x: tuple[int, ...]) -> None:
    registers[x[1]].value = registers[x[2]]
    registers[x[0]] = ()


_RARE: dict[int, Callable[[list[Any], tuple[int, ...]], None]] = {
    Opcode.ALLOC_CLOSURE: _alloc_closure,
    Opcode.GET_TAG: _get_tag,
    Opcode.SHAPE_OF: _shape_of,
    Opcode.ALLOC_REFERENCE: _alloc_reference,
    Opcode.READ_REFERENCE: _read_reference,
    Opcode.WRITE_REFERENCE: _write_reference,
}
