"""Memory over time: the values in the arena of an execution plan, where each lies and from which step to which.

Steps are kernel calls. A value lives from the call that writes it to the last that reads any of its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.type import tensor_types
from tilewright.relay.transform.memory.plan_memory import MemoryPlan, Where
from tilewright.runtime.plan import ExecutionPlan


@dataclass
class Value:
    """A run of bytes of the arena, and the first and last step that touch it; `scratch` is a kernel's own."""

    offset: int
    nbytes: int
    first: int
    last: int
    scratch: bool = False

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.nbytes

    def overlaps(self, start: int, end: int) -> bool:
        """True if it has any of these bytes."""
        return self.offset < end and start < self.end


#: Runs of bytes, offset and size.
Runs = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Step:
    """The runs that a call reads in the arena, those that it writes, and the scratch memory of its kernel."""

    reads: Runs
    writes: Runs
    scratch: Runs = ()


def steps_of(plan: ExecutionPlan | None, memory: MemoryPlan, scratch: Mapping[str, int]) -> list[Step] | None:
    """The bytes that each call touches, by the plan that was compiled, else by `memory`; None for symbolic sizes.

    `scratch` has the bytes of scratch memory of kernels by name.
    """
    if memory.buffers or (plan is not None and plan.dynamic is not None):
        return None
    kernels = () if plan is None else [call for call in plan.kernels if not call.is_copy]
    own = [0] * len(memory.order)
    if len(kernels) == len(memory.order):
        own = [scratch.get(call.name, 0) for call in kernels]
        positions = [[arg.offset if arg.space == "arena" else None for arg in call.args] for call in kernels]
    else:
        positions = [
            [at.position if at.where is Where.ARENA else None for at in memory.arguments(call)] for call in memory.order
        ]
    return [_step(call, at, nbytes) for call, at, nbytes in zip(memory.order, positions, own)]


def _step(call: Call, positions: Sequence[Any], scratch: int) -> Step:
    """The step of a call, whose tensors and then scratch memory are at `positions` (None: not in the arena)."""
    reads = [type_.nbytes for arg in call.args for type_ in tensor_types(arg.checked_type)]
    writes = [type_.nbytes for type_ in tensor_types(call.checked_type)]
    count, end = len(reads), len(reads) + len(writes)
    return Step(
        _runs(positions[:count], reads),
        _runs(positions[count:end], writes),
        _runs(positions[end : end + 1], [scratch] if scratch else []),
    )


def _runs(positions: Sequence[Any], sizes: Sequence[Any]) -> Runs:
    return [(at, size) for at, size in zip(positions, sizes) if at is not None]


def liveness(steps: Sequence[Step]) -> list[Value]:
    """The values of the arena in the order in which they are written."""
    values: list[Value] = []
    alive: list[Value] = []
    for number, step in enumerate(steps):
        for offset, nbytes in step.reads:
            for value in alive:
                if value.overlaps(offset, offset + nbytes):
                    value.last = number
        made = [Value(offset, nbytes, number, number) for offset, nbytes in step.writes]
        values += made
        values += [Value(offset, nbytes, number, number, True) for offset, nbytes in step.scratch]
        # a result lies over nothing that is read later
        alive = [one for one in alive if not any(new.overlaps(one.offset, one.end) for new in made)] + made
    return values


def live_bytes(values: Sequence[Value], count: int) -> list[int]:
    """The bytes that hold a value during each of `count` steps, those of several values once."""
    found = []
    for step in range(count):
        runs = sorted((value.offset, value.end) for value in values if value.first <= step <= value.last)
        total = reach = 0
        for start, end in runs:
            total += max(0, end - max(start, reach))
            reach = max(reach, end)
        found.append(total)
    return found
