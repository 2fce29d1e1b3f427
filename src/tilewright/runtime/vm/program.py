"""A program for the virtual machine: functions of instructions, read from the manifest and checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.errors import ArtifactError
from tilewright.runtime.vm.instruction import REGISTER_OPERANDS, Opcode, instruction_text


@dataclass(frozen=True)
class VMFunction:
    """One function: its arguments are the first `params` of its `registers`."""

    name: str
    params: int
    registers: int
    code: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        head = f"{self.name}: {self.params} parameters, {self.registers} registers"
        return "\n".join([head, *[f"{i:4}  {instruction_text(list(ins))}" for i, ins in enumerate(self.code)]])


@dataclass(frozen=True)
class Program:
    """All functions; `main` is the number of the one that runs first."""

    functions: tuple[VMFunction, ...]
    main: int

    @classmethod
    def from_manifest(cls, entry: Mapping[str, Any]) -> Program:
        """Read and check the manifest's ``program``. Raises `ArtifactError` where an instruction cannot be right."""
        functions = tuple(
            VMFunction(f["name"], f["params"], f["registers"], tuple(tuple(map(int, ins)) for ins in f["code"]))
            for f in entry["functions"]
        )
        program = cls(functions, int(entry["main"]))
        for function in functions:
            for position, instruction in enumerate(function.code):
                _check(program, function, position, instruction)
            if not function.code or function.code[-1][0] not in _LAST:
                raise ArtifactError(f"the function {function.name!r} of the program does not end")
        return program

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.functions))


_LAST = {Opcode.RET, Opcode.TAIL_INVOKE, Opcode.TAIL_INVOKE_CLOSURE, Opcode.FATAL, Opcode.GOTO}
_JUMPS = {Opcode.IF: 1, Opcode.GOTO: 0, Opcode.IF_TAG: 2}
_CALLS = {Opcode.INVOKE: 1, Opcode.TAIL_INVOKE: 0, Opcode.ALLOC_CLOSURE: 1}


def _check(program: Program, function: VMFunction, position: int, instruction: tuple[int, ...]) -> None:
    """Registers, jumps and function numbers must exist."""
    try:
        opcode = Opcode(instruction[0])
        operands = instruction[1:]
        fixed, rest = REGISTER_OPERANDS[opcode]
        registers = [operands[i] for i in fixed] + list(operands[rest:] if rest is not None else ())
        jump = position + operands[_JUMPS[opcode]] if opcode in _JUMPS else position
        callee = operands[_CALLS[opcode]] if opcode in _CALLS else 0
    except (ValueError, IndexError):
        registers, jump, callee = [-1], -1, -1
    in_range = all(0 <= register < function.registers for register in registers)
    if not (in_range and 0 <= jump < len(function.code) and 0 <= callee < len(program.functions)):
        raise ArtifactError(f"instruction {position} of the function {function.name!r} is damaged: {list(instruction)}")
