"""A loop of the virtual machine that runs in native code: one segment, called until its last result is false.

What the loop carries has two positions each, which change roles after every turn: the segment reads one and writes the
other. What it collects is written into rows of one array, which grows when it is full.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.runtime.cpu.segment import Segment
from tilewright.runtime.host_ops.lists import Rows
from tilewright.runtime.manifest import Loop
from tilewright.runtime.memory import Array, address_of
from tilewright.runtime.native import native
from tilewright.runtime.plan import ExecutionPlan
from tilewright.runtime.program import Caller
from tilewright.runtime.signature import bind

#: Rows that an array of collected values has at first, where they take no more than these bytes.
FIRST_BYTES = 1 << 16

#: Turns of a loop that collects nothing, at most, before Python sees signals again.
_MANY = 1 << 16

#: Microseconds that several workers must save in a turn, which is a launch of its own.
_WORTH_MEETING = 3.0

# The positions of the numbers that `tilewright_repeat` reads.
_MOST, _DONE, _PAIRS = 3, 4, 8


class NativeLoop:
    """A loop over one segment, whose results are the carried values, the collected ones and the condition."""

    def __init__(self, segment: Segment, loop: Loop) -> None:
        self.segment, self.loop = segment, loop
        self.first, self.count = len(segment.inputs), len(loop.carried)
        self.collected = len(segment.outputs) - self.count - 1
        self.shared = segment.run_address != 0 and worth_sharing(segment.manifest)

    def run(self, values: Sequence[Any], threads: int) -> tuple[list[Any], int]:
        """The carried values at the end and the lists of collected ones; 0 or the code of a failed check.

        `values` are those that the segment reads, then the lists so far.
        """
        segment, loop = self.segment, self.loop
        inputs = [bind(value, spec) for value, spec in zip(values, segment.inputs)]
        for position in loop.carried:
            if position is not None:
                inputs[position] = inputs[position].copy()
        threads = threads if self.shared else 1
        results = segment.prepare(inputs, None, threads)
        rows = [_rows(result, self._capacity(result)) for result in results[self.count : -1]]
        numbers = self._numbers(rows, results)
        while True:
            for index, row in enumerate(rows):
                segment.set_result(self.count + index, row, int(numbers[_DONE]))
            numbers[_MOST] = min([len(row) for row in rows], default=int(numbers[_DONE]) + _MANY)
            code = native().repeat(ctypes.addressof(numbers), threads)
            if code or not results[-1]:
                break
            rows = [_grown(row) if len(row) == numbers[_DONE] else row for row in rows]
        done = int(numbers[_DONE])
        last = [
            inputs[position] if position is not None and done % 2 == 0 else result
            for position, result in zip(loop.carried, results)
        ]
        return [*last, *[Rows(old, row[:done]) for old, row in zip(values[self.first :], rows)]], code

    def _capacity(self, result: Array) -> int:
        return max(16, FIRST_BYTES // max(result.nbytes, 1))

    def _numbers(self, rows: list[Array], results: list[Array]) -> Any:
        """The numbers that `tilewright_repeat` reads: see its text in `codegen/native/repeat.py`."""
        segment = self.segment
        pairs = [(position, self.first + k) for k, position in enumerate(self.loop.carried) if position is not None]
        steps = [(self.first + self.count + k, row[:1].nbytes) for k, row in enumerate(rows)]
        flat = [number for pair in (*pairs, *steps) for number in pair]
        test = address_of(results[-1])
        head = [segment.entry, segment.run_address, segment.slots_address, 0, 0, test, len(pairs), len(steps)]
        assert len(head) == _PAIRS
        return (ctypes.c_int64 * (len(head) + len(flat)))(*head, *flat)


def repeated(call: Caller, plan: ExecutionPlan, loop: Loop, to_host: Callable[[Any], Any]) -> Caller:
    """The same on a device whose segments Python calls one by one; what is collected is copied `to_host`."""
    count, first = len(loop.carried), len(plan.inputs)

    def run(values: Sequence[Any], threads: int) -> tuple[list[Any], int]:
        inputs = list(values[:first])
        rows: list[list[Array]] = [[] for _ in values[first:]]
        while True:
            results, code = call(inputs, threads)
            for kept, result in zip(rows, results[count:-1]):
                kept.append(to_host(result))
            if code or not results[-1]:
                break
            for index, result in zip(loop.carried, results):
                if index is not None:
                    inputs[index] = result
        return [*results[:count], *[Rows(old, np.stack(kept)) for old, kept in zip(values[first:], rows)]], code

    return run


def worth_sharing(segment: ExecutionPlan) -> bool:
    """True if several workers are predicted to be faster than one for the segment's kernels."""
    choices = [kernel.choice for kernel in segment.kernels]
    return sum(choice.get("alone", 0.0) - choice.get("microseconds", 0.0) for choice in choices) > _WORTH_MEETING


def _rows(element: Array, count: int) -> Array:
    return np.empty((count, *element.shape), element.dtype)


def _grown(rows: Array) -> Array:
    """An array of twice as many rows, of which the first are those."""
    grown = _rows(rows[0], 2 * len(rows))
    grown[: len(rows)] = rows
    return grown
