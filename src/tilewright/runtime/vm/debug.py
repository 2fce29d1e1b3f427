"""`DebugMachine`: a program run operator by operator, every result kept.

    exe = tilewright.compile(model, executor="debug")
    for step in exe.steps({"x": x}):
        print(step.source, step.operator, step.values[0].shape, step.seconds)

Each operator is a segment of its own, so nothing is fused across what one can look at; operators within loops come as
often as they run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.runtime.manifest import Packed as PackedEntry
from tilewright.runtime.signature import by_name
from tilewright.runtime.vm.executable import VirtualMachine
from tilewright.runtime.vm.machine import Packed, execute


@dataclass(frozen=True)
class Step:
    """One operator that ran: its name, the nodes of the source model it belongs to, what it gave, and how long it took.

    `values` are arrays, or what else host operators exchange; those that nothing reads are left out.
    """

    operator: str
    source: str
    values: tuple[Any, ...]
    seconds: float


class DebugMachine(VirtualMachine):
    """A program compiled for inspection; it runs like any other, and `steps` lists what it computed."""

    executor = "debug"

    def steps(self, inputs: Mapping[str, Any]) -> list[Step]:
        """Run once; every operator in the order of execution. All values are in memory at the end."""
        found: list[Step] = []
        self.watch(inputs, found.append)
        return found

    def watch(self, inputs: Mapping[str, Any], see: Callable[[Step], None]) -> None:
        """Run once and call `see` with each operator as soon as it ran, its values not kept."""
        values = by_name(inputs, self.inputs, self._bind)
        with self._turn():
            calls = [watched(entry, call, see) for entry, call in zip(self.manifest.packed, self._packed)]
            execute(self.program, calls, self._constants, values)


def watched(entry: PackedEntry, call: Packed, see: Callable[[Step], None]) -> Packed:
    """A call of a program that calls `see` with each operator as soon as it ran."""
    operator, source = entry.host or entry.operator, entry.source

    def seen(*values: Any) -> tuple[Any, ...]:
        start = time.perf_counter()
        results = call(*values)
        see(Step(operator, source, results, time.perf_counter() - start))
        return results

    return seen
