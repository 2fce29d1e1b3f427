"""A model for the web in wasmtime, in this process, on one thread: memory laid out as `wasm.mjs` does."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.memory import ALIGNMENT, Array, round_up
from tilewright.runtime.module import failure_text
from tilewright.runtime.overlap import fresh
from tilewright.runtime.shape_program import ShapeProgram
from tilewright.runtime.signature import bind
from tilewright.runtime.web.description import Resolved
from tilewright.runtime.web.interpreted import Interpreted
from tilewright.runtime.web.machine import Machine

#: The context of `backend/wasm/run_text.py`: the worker 0 of 1, without a team; the fourth word is the only region.
_ONE_WORKER = (0, 1, 0, 0, 0, 0)
_ONLY = 12  # bytes before that word


class InWasmtime:
    """An instance of a module in wasmtime. `note` says where a run was."""

    threads = 1

    def __init__(self, module: bytes, model: Resolved, weights: Array) -> None:
        """Compile the module, and copy the weights into its memory. Raises `EnvironmentError_` without wasmtime."""
        self.manifest, self._pieces = model.manifest, model.pieces
        self.note = f"wasmtime {importlib.metadata.version('wasmtime')}"
        self._machine = machine = Machine(module)
        self._weights = machine.take(weights.nbytes)
        machine.write(self._weights, weights)
        context = np.array(_ONE_WORKER, "<i4").tobytes()
        self._context = machine.take(len(context))
        machine.write(self._context, context)
        machine.keep()
        self._sizes = [
            None if piece.dynamic is None else ShapeProgram(piece.dynamic, piece.inputs, piece.alignment)
            for piece in self._pieces
        ]
        #: The interpreted program, where the model is one.
        self.program = None if model.interface is not None else Interpreted(self.manifest, weights, self._segment)
        self._last: Sequence[Any] = ()

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs. Raises `InputError` where a check of the model fails."""
        self._last = values
        if self.program is not None:
            return fresh(self.program.run(values), values)
        results, code = self._segment(0, values)
        if code:
            raise InputError(f"the model stopped: {failure_text(self.manifest.messages, code)}")
        return results

    def _segment(self, number: int, values: Sequence[Any]) -> tuple[list[Array], int]:
        """The results of a piece on values, and 0 or the code of a failed check."""
        piece = self._pieces[number]
        arrays = [bind(value, spec) for value, spec in zip(values, piece.inputs)]
        shapes = self._lay_out(number, arrays)
        code = self._machine.call("run", self._slots, self._context)
        results = []
        for index, (spec, shape) in enumerate(zip(piece.outputs, shapes, strict=True)):
            count = int(np.prod(shape, dtype=np.int64))
            data = self._machine.read(self._addresses[len(arrays) + index], count * spec.numpy.itemsize)
            results.append(np.frombuffer(data, spec.numpy, count).reshape(shape).copy())
        return results, code

    def time(self, repeat: int) -> list[float]:
        """Seconds of each of so many further runs on the last inputs."""
        return [self._seconds() for _ in range(repeat)]

    def profile(self, regions: int, repeat: int) -> list[float]:
        """The least seconds of each region of the run loop, in `repeat` rounds."""
        best = [float("inf")] * regions
        for _ in range(repeat):
            for region in range(regions):
                self._machine.write(self._context + _ONLY, np.array(region + 1, "<i4").tobytes())
                best[region] = min(best[region], self._seconds())
        self._machine.write(self._context + _ONLY, bytes(4))
        return best

    def close(self) -> None:
        """Nothing is left to be done."""

    def _seconds(self) -> float:
        start = time.perf_counter()
        if self.program is not None:
            self.run(self._last)
        else:
            self._machine.call("run", self._slots, self._context)
        return time.perf_counter() - start

    def _lay_out(self, number: int, arrays: Sequence[Array]) -> list[tuple[int, ...]]:
        """Lay memory out for a piece, write its inputs and slots; the shapes of its outputs."""
        machine, piece, program = self._machine, self._pieces[number], self._sizes[number]
        machine.release()
        arena, scratch, table = round_up(piece.arena_bytes, ALIGNMENT), piece.worker_workspace_bytes, b""
        if program is None:
            shapes = [spec.static_shape for spec in piece.outputs]
        else:
            plan = program.plan(arrays)
            arena, scratch, shapes = plan.arena_bytes, plan.scratch_bytes, list(plan.outputs)
            table = np.array(plan.table, "<i8").tobytes()
        sizes = [
            int(np.prod(shape, dtype=np.int64)) * spec.numpy.itemsize for spec, shape in zip(piece.outputs, shapes)
        ]
        self._addresses = [machine.take(size) for size in (*[array.nbytes for array in arrays], *sizes)]
        slots = [*self._addresses, self._weights, machine.take(arena), machine.take(scratch)]
        if table:
            slots.append(machine.take(len(table)))
            machine.write(slots[-1], table)
        before = machine.take(ALIGNMENT + 8 * len(slots))  # the last word of it is the piece's number
        self._slots = before + ALIGNMENT
        machine.write(self._slots - 8, np.array([number, *slots], "<u8").tobytes())
        for array, address in zip(arrays, self._addresses, strict=False):
            machine.write(address, np.ascontiguousarray(array).tobytes())
        return shapes
