"""A program for the virtual machine: functions of instructions, read from the manifest and checked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tilewright.errors import ArtifactError
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.signature import describe
from tilewright.runtime.vm.instruction import REGISTER_OPERANDS, Opcode, instruction_text


@dataclass(frozen=True)
class VMFunction:
    """One function: its arguments are the first `params` of its `registers`."""

    name: str
    params: int
    registers: int
    code: tuple[tuple[int, ...], ...]

    @cached_property
    def steps(self) -> tuple[tuple[int, tuple[Any, ...]], ...]:
        """The instructions as the interpreter reads them: an opcode and its operands, runs of registers as one each."""
        return tuple([(ins[0], _GROUPED.get(ins[0], tuple)(ins[1:])) for ins in self.code])

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
        try:
            functions = tuple(
                VMFunction(
                    str(f["name"]),
                    int(f["params"]),
                    int(f["registers"]),
                    tuple(tuple(map(int, ins)) for ins in f["code"]),
                )
                for f in entry["functions"]
            )
            program = cls(functions, int(entry["main"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ArtifactError(f"the program is incomplete: {error!r}") from None
        if not 0 <= program.main < len(functions):
            raise ArtifactError(f"the program begins in function {program.main}, and there are {len(functions)}")
        for function in functions:
            if not 0 <= function.params <= function.registers <= function.params + sum(map(len, function.code)):
                raise ArtifactError(
                    f"the function {function.name!r} of the program has {function.params} parameters and "
                    f"{function.registers} registers, which do not fit its instructions"
                )
            for position, instruction in enumerate(function.code):
                _check(program, function, position, instruction)
            if not function.code or function.code[-1][0] not in _LAST:
                raise ArtifactError(f"the function {function.name!r} of the program does not end")
        return program

    def check_against(self, manifest: Manifest) -> None:
        """Raise `ArtifactError` if instructions refer to constants or calls that do not match `manifest`."""
        main = self.functions[self.main]
        if main.params != len(manifest.inputs):
            raise ArtifactError(f"the program takes {main.params} values, and the model {describe(manifest.inputs)}")
        for function in self.functions:
            for position, (opcode, *x) in enumerate(function.code):
                fits = True
                if opcode == Opcode.LOAD_CONST:
                    fits = 0 <= x[1] < len(manifest.constants)
                elif opcode == Opcode.INVOKE_PACKED:
                    fits = 0 <= x[0] < len(manifest.packed) and _fits(manifest, x[0], x[1], len(x) - 2 - x[1])
                elif opcode in _CALLS:
                    given = len(x) - 1 - _CALLS[opcode]
                    wanted = self.functions[x[_CALLS[opcode]]].params
                    fits = given <= wanted if opcode == Opcode.ALLOC_CLOSURE else given == wanted
                if not fits:
                    raise ArtifactError(_damaged(function, position))

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.functions))


#: Operands that end in runs of registers, as the interpreter wants them.
_GROUPED: dict[int, Callable[[tuple[int, ...]], tuple[Any, ...]]] = {
    Opcode.INVOKE_PACKED: lambda x: (x[0], x[2 : 2 + x[1]], x[2 + x[1] :]),
    Opcode.INVOKE: lambda x: (x[0], x[1], x[2:]),
    Opcode.INVOKE_CLOSURE: lambda x: (x[0], x[1], x[2:]),
    Opcode.TAIL_INVOKE: lambda x: (None, x[0], x[1:]),
    Opcode.TAIL_INVOKE_CLOSURE: lambda x: (None, x[0], x[1:]),
}
_LAST = {Opcode.RET, Opcode.TAIL_INVOKE, Opcode.TAIL_INVOKE_CLOSURE, Opcode.FATAL, Opcode.GOTO}
_JUMPS = {Opcode.IF: 1, Opcode.GOTO: 0, Opcode.IF_TAG: 2}
_CALLS: dict[int, int] = {Opcode.INVOKE: 1, Opcode.TAIL_INVOKE: 0, Opcode.ALLOC_CLOSURE: 1}


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
        raise ArtifactError(_damaged(function, position))


def _damaged(function: VMFunction, position: int) -> str:
    return f"instruction {position} of the function {function.name!r} is damaged: {list(function.code[position])}"


def _fits(manifest: Manifest, number: int, results: int, arguments: int) -> bool:
    """True if the callee `number` has these numbers of arguments and results, where the manifest has them."""
    called = manifest.packed[number]
    if called.segment is None:
        return results >= 0 and arguments >= 0
    segment = manifest.segments[called.segment]
    if called.loop is None:
        return (results, arguments) == (len(segment.outputs), len(segment.inputs))
    collected = len(segment.outputs) - 1 - len(called.loop.carried)
    return (results, arguments) == (len(segment.outputs) - 1, len(segment.inputs) + collected)
