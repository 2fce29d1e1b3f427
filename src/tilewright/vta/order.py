"""The three units, the tokens between them, and what these order: every execution is a walk of this module.

Fetch hands instructions to the queues of load, compute and store in their order. A unit begins its next instruction
once the tokens it waits for are there, and signals tokens when it is done. Nothing else orders instructions of
different units, so two that reach the same element, one of them writing, must be ordered by tokens: else they race.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.errors import ProgramError
from tilewright.vta.codec import Instruction, disassemble
from tilewright.vta.isa import FLAGS, Isa
from tilewright.vta.loops import UopMemory, accesses, memory_of

UNITS = ("load", "compute", "store")

#: Which queue of tokens a flag means, by unit. Load has no unit before it, store none behind.
_QUEUES = {
    "load": {"pop_next": "compute to load", "push_next": "load to compute"},
    "compute": {
        "pop_prev": "load to compute",
        "pop_next": "store to compute",
        "push_prev": "compute to load",
        "push_next": "compute to store",
    },
    "store": {"pop_prev": "compute to store", "push_prev": "store to compute"},
}


@dataclass(frozen=True)
class Step:
    """An instruction that is executed now; `clock[u]` instructions of unit u are certain to be done before it."""

    position: int
    instruction: Instruction
    unit: int
    clock: tuple[int, ...]


def unit_of(isa: Isa, instruction: Instruction) -> str:
    """The unit that executes an instruction: loads of micro-ops and accumulators are work of compute."""
    if instruction.name == "LOAD":
        return "load" if memory_of(isa, instruction) in ("INP", "WGT") else "compute"
    return "store" if instruction.name == "STORE" else "compute"


def where(isa: Isa, position: int, instruction: Instruction) -> str:
    """An instruction as messages name it."""
    return f"instruction {position} `{disassemble(isa, instruction)}`"


def walk(isa: Isa, program: Sequence[Instruction], choose: Callable[[list[str]], str]) -> Iterator[Step]:
    """The instructions in an order that the tokens allow; `choose` picks one of the units that could go on.

    Raises `ProgramError` of kind "tokens" for a flag that a unit does not have, "finish" where FINISH is not the end,
    "deadlock" where no unit can go on, "leftover" for tokens that nobody takes.
    """
    queues = _queues(isa, program)
    sizes = [len(queues[unit]) for unit in UNITS]
    tokens: dict[str, deque[tuple[int, ...]]] = {name: deque() for unit in UNITS for name in _QUEUES[unit].values()}
    clocks: dict[str, tuple[int, ...]] = dict.fromkeys(UNITS, (0, 0, 0))
    while any(queues.values()):
        ready = [unit for unit in UNITS if queues[unit] and not _missing(unit, queues[unit][0][1], tokens)]
        if not ready:
            raise ProgramError(_deadlock(isa, queues, tokens), "deadlock")
        unit = choose(ready)
        position, instruction = queues[unit].popleft()
        clock = list(clocks[unit])
        for name in _named(unit, instruction, "pop"):
            clock = [max(pair) for pair in zip(clock, tokens[name].popleft())]
        clock[UNITS.index(unit)] += 1
        clocks[unit] = tuple(clock)
        if instruction.name == "FINISH":
            _refuse_unfinished(isa, position, instruction, clock, sizes)
        yield Step(position, instruction, UNITS.index(unit), clocks[unit])
        for name in _named(unit, instruction, "push"):
            tokens[name].append(clocks[unit])
    for name, left in tokens.items():
        if left:
            raise ProgramError(
                f"{len(left)} tokens from {name} are never taken, and would start the next program too early; "
                "pop as many as are pushed",
                "leftover",
            )


def _named(unit: str, instruction: Instruction, verb: str) -> list[str]:
    return [name for flag, name in _QUEUES[unit].items() if flag.startswith(verb) and instruction[flag]]


def _missing(unit: str, instruction: Instruction, tokens: dict[str, deque[tuple[int, ...]]]) -> list[str]:
    return [name for name in _named(unit, instruction, "pop") if not tokens[name]]


def _queues(isa: Isa, program: Sequence[Instruction]) -> dict[str, deque[tuple[int, Instruction]]]:
    """The queues of the units as fetch fills them."""
    queues: dict[str, deque[tuple[int, Instruction]]] = {unit: deque() for unit in UNITS}
    for position, instruction in enumerate(program):
        unit = unit_of(isa, instruction)
        for flag in FLAGS:
            if instruction[flag] and flag not in _QUEUES[unit]:
                text = f"{where(isa, position, instruction)} is work of {unit}, which has no unit on the side of {flag}"
                raise ProgramError(f"{text}; it may have {', '.join(_QUEUES[unit])}", "tokens")
        queues[unit].append((position, instruction))
    ends = [instruction.name for _, instruction in queues["compute"]]
    if ends.count("FINISH") != 1 or ends[-1] != "FINISH":
        raise ProgramError(
            f"a program has one FINISH, the last instruction of compute; this one has {ends.count('FINISH')}", "finish"
        )
    return queues


def _deadlock(
    isa: Isa, queues: dict[str, deque[tuple[int, Instruction]]], tokens: dict[str, deque[tuple[int, ...]]]
) -> str:
    waiting = [
        f"  {unit}: {where(isa, *queue[0])} waits for a token from {' and '.join(_missing(unit, queue[0][1], tokens))}"
        for unit, queue in queues.items()
        if queue
    ]
    return "\n".join(["no unit can go on; push the tokens that are waited for:", *waiting])


def _refuse_unfinished(isa: Isa, position: int, instruction: Instruction, clock: list[int], sizes: list[int]) -> None:
    """FINISH hands DRAM back to the host, so all must be done by then."""
    for unit, done, size in zip(UNITS, clock, sizes):
        if done < size:
            raise ProgramError(
                f"{where(isa, position, instruction)} does not wait for the last {size - done} instructions of {unit}: "
                "the host would see DRAM before they are done; let it wait for a token that comes after them",
                "race",
            )


class RaceDetector:
    """For each element of each memory, the last instruction of each unit that read and that wrote it.

    A conflict with an earlier step is a race if that is not among those which the clock of the present one has done. As
    clocks come from tokens alone, a race is found whatever the order of the walk.
    """

    def __init__(self, isa: Isa, program: Sequence[Instruction], dram_bytes: int) -> None:
        self._isa, self._program = isa, program
        sizes = {"DRAM": dram_bytes} | {name: isa.memories[name].depth for name in ("INP", "WGT", "ACC")}
        self._last = {
            (memory, write): np.zeros((len(UNITS), size), np.int32)
            for memory, size in sizes.items()
            for write in (False, True)
        }
        self._positions: list[list[int]] = [[] for _ in UNITS]

    def admit(self, step: Step, uops: UopMemory) -> None:
        """Record what a step reaches; `ProgramError` of kind "race" if tokens do not order it after another."""
        self._positions[step.unit].append(step.position)
        for memory, index, write in accesses(self._isa, step.instruction, uops):
            for other in range(len(UNITS)):
                for wrote in (True, False) if write else (True,):
                    seen = self._last[memory, wrote][other][index]
                    if other != step.unit and (seen > step.clock[other]).any():
                        self._refuse(step, other, int(seen.max()), memory, int(index[seen.argmax()]))
            self._last[memory, write][step.unit][index] = step.clock[step.unit]

    def _refuse(self, step: Step, other: int, count: int, memory: str, element: int) -> None:
        second = self._positions[other][count - 1]
        unit = "byte" if memory == "DRAM" else "element"
        raise ProgramError(
            f"{where(self._isa, step.position, step.instruction)} and "
            f"{where(self._isa, second, self._program[second])} both reach {unit} {element} of {memory}, one of them "
            "writes, and no tokens order them; push a token from the first and pop it in the second",
            "race",
        )
