"""A function of the virtual machine without the interpreter: its flat program for arguments of certain sizes.

Its steps run in native code (`tilewright_steps`), which Python sees again only when a list has to grow, and from time
to time for signals. Its results are written into arrays of their own where that can be.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.cpu.program import Program
from tilewright.runtime.host_ops.lists import Rows
from tilewright.runtime.memory import Array, Region, address_of
from tilewright.runtime.native import native
from tilewright.runtime.output_memory import OutputMemory
from tilewright.runtime.vm.encode import CODE, POSITION, SLOTS, THREADS, TURNS, WHAT, Encoder
from tilewright.runtime.vm.flat import FlatProgram
from tilewright.runtime.vm.loop import FIRST_BYTES, worth_sharing
from tilewright.runtime.vm.positions import Collected, Function, Given, Growing, Location, refuse, usable
from tilewright.runtime.vm.steps import Address, Copy, tidy
from tilewright.runtime.vm.value import Closure, Data

#: Steps of a function at most: to write down one takes 20 us, which many runs have to bring in again.
MOST_STEPS = 4_000

#: Bytes that a function may keep for what it computes: results do not share memory in it.
_MOST_BYTES = 64 << 20

#: Turns of loops before Python first checks for signals, and the seconds after which it should check again.
_FIRST_TURNS, _PATIENCE = 1 << 10, 0.05

# Why `tilewright_steps` was left.
_DONE, _PAUSE, _FULL, _FAILED = range(4)


class NativeFunction:
    """One function, for arguments of one kind: see `kinds.py`. Not for use by several threads at a time."""

    def __init__(
        self,
        flat: FlatProgram,
        number: int,
        arguments: Sequence[Any],
        leaves: int,
        native: Program,
    ) -> None:
        """Raises `UnsupportedError` where the function needs the interpreter."""
        result = flat.open(number, arguments)
        self.flat, self.memory = flat, native.memory
        self._results: list[Location] = []
        self._homes: dict[int, str] = {}
        self._template = self._written(result)
        if flat.workspace_bytes > _MOST_BYTES:
            refuse(f"what it computes takes {flat.workspace_bytes} bytes")
        self._tables = [np.array(numbers, dtype.numpy) for dtype, numbers in flat.tables]
        entries = [s.shared_entry if worth_sharing(s.manifest) else (s.entry, 0) for s in native.segments]
        encoder = Encoder(entries, self._homes)
        words = encoder.words(tidy(flat.steps))
        self._words = (ctypes.c_int64 * len(words))(*words)
        self._slots = (ctypes.c_int64 * max(flat.most_slots, 1))()
        self._arena = Region(flat.workspace_bytes)
        self._cells = encoder.cells
        self._frame = (ctypes.c_int64 * encoder.frame_cells)()
        self._frame_address = ctypes.addressof(self._frame)
        self._frame[CODE], self._frame[SLOTS] = ctypes.addressof(self._words), ctypes.addressof(self._slots)
        bases = {"weights": address_of(native.weights), "arena": self._arena.address}
        bases |= {f"k{i}": address_of(table) for i, table in enumerate(self._tables)}
        for name, address in bases.items():
            if name in self._cells:
                self._frame[self._cells[name]] = address
        self._given = [(i, self._cells[f"slot{i}"]) for i in range(leaves) if f"slot{i}" in self._cells]
        self._memory_cells = [self._cells.get("working"), self._cells.get("scratch")]
        self._outputs = [(self._cells[f"out{i}"], p.shape, p.dtype.numpy) for i, p in enumerate(self._results)]
        self._counts = [self._cells[name] for name in self._cells if name[0] == "n" and name[1:].isdigit()]
        self._lists = [(self._cells[g.room], self._cells[f"rows{g.number}"], g) for g in self._used_lists()]
        self._output_memory = OutputMemory(2 * len(self._outputs))
        self._turns = _FIRST_TURNS

    def _used_lists(self) -> list[Growing]:
        return [g for g in self.flat.lists if g.row is not None and f"rows{g.number}" in self._cells]

    def run(self, values: Sequence[Any], threads: int, check: Callable[[int], None]) -> Any:
        """The results of the function for the leaves of its arguments. `check` raises the error of a segment's code."""
        frame, memory = self._frame, self.memory
        memory.reserve(self.flat.segment_bytes, self.flat.scratch_bytes * threads)
        for i, cell in self._given:
            frame[cell] = address_of(values[i])
        for position, address in zip(self._memory_cells, (memory.arena.address, memory.scratch.address)):
            if position is not None:
                frame[position] = address
        results = [self._output_memory.empty(shape, dtype) for _, shape, dtype in self._outputs]
        for (cell, _, _), array in zip(self._outputs, results):
            frame[cell] = address_of(array)
        for cell in self._counts:
            frame[cell] = 0
        frame[POSITION], frame[THREADS] = 0, threads
        rows: dict[int, list[Array]] = {}
        self._drive(rows, check)
        return self._value(self._template, values, results, rows)

    def _drive(self, rows: dict[int, list[Array]], check: Callable[[int], None]) -> None:
        """Run to the end; signals are seen between calls. All arrays that a list had live until the end."""
        frame, steps = self._frame, native().steps
        while True:
            frame[TURNS] = turns = self._turns
            start = time.monotonic()
            why = steps(self._frame_address)
            if why == _DONE:
                return
            if why == _PAUSE:
                seconds = max(time.monotonic() - start, 1e-6)
                self._turns = max(1, min(int(turns * _PATIENCE / seconds), 1 << 30))
            elif why == _FULL:
                self._grow(int(frame[WHAT]), rows)
            elif why == _FAILED:
                check(int(frame[WHAT]))
            else:
                raise InputError(self.flat.messages[int(frame[WHAT])])

    def _grow(self, number: int, rows: dict[int, list[Array]]) -> None:
        """Double the memory of a list that it has."""
        room, base, memory = next(one for one in self._lists if one[2].number == number)
        assert memory.row is not None
        shape, dtype = memory.row.shape, memory.row.dtype.numpy
        arrays = rows.setdefault(number, [])
        have = len(arrays[-1]) if arrays else 0
        array = np.empty((max(16, FIRST_BYTES // max(memory.row.nbytes, 1), 2 * have), *shape), dtype)
        if have:
            array[:have] = arrays[-1]
        arrays.append(array)
        self._frame[room], self._frame[base] = len(array), address_of(array)

    # ------------------------------------------------------------------------------------------------------- results
    def _written(self, value: Any) -> Any:
        """The description of a result, copied into memory of its own unless a step wrote it there."""
        value = usable(value)
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], int):
            return Data(value[0], tuple(self._written(part) for part in value[1]))
        if isinstance(value, tuple):
            return tuple(self._written(part) for part in value)
        if isinstance(value, Function):
            return Closure(value.number, tuple(self._written(part) for part in value.captured))
        if not isinstance(value, Location):
            return value
        base, offset = value.address.base, value.address.offset
        if base.startswith("slot"):
            return Given(int(base[4:]))
        out = f"out{len(self._results)}"
        self._results.append(value)
        if base == "arena" and not value.address.count and offset not in self._homes:
            self._homes[offset] = out
        else:
            self.flat.steps.append(Copy(Address(out), value.address, value.nbytes))
        return value

    def _value(self, found: Any, values: Sequence[Any], results: Sequence[Array], rows: dict[int, list[Array]]) -> Any:
        """The result that a description stands for."""
        left = iter(results)

        def made(one: Any) -> Any:
            if isinstance(one, Location):
                return next(left)
            if isinstance(one, Given):
                return values[one.number]
            if isinstance(one, tuple):
                return tuple([made(part) for part in one])
            if isinstance(one, Data):
                return Data(one.tag, tuple([made(part) for part in one.fields]))
            if isinstance(one, Closure):
                return Closure(one.function, tuple([made(part) for part in one.captured]))
            if isinstance(one, Collected):
                return self._list(one, values, rows)
            return one

        return made(found)

    def _list(self, one: Collected, values: Sequence[Any], rows: dict[int, list[Array]]) -> Any:
        """A list: its rows before the run, and those appended."""
        assert one.growing is not None
        before = None if one.growing.argument is None else values[one.growing.argument]
        count = 0 if one.count == "0" else int(self._frame[self._cells[one.count]])
        return Rows(before, rows[one.growing.number][-1][:count]) if count else before
