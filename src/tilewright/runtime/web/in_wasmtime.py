"""A model for the web in wasmtime, in this process, on one thread: memory laid out as `wasm.mjs` does."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Sequence

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array
from tilewright.runtime.module import failure_text
from tilewright.runtime.shape_program import ShapeProgram
from tilewright.runtime.web.machine import Machine

#: The context of `backend/wasm/run_text.py`: the worker 0 of 1, without a team; the fourth word is the only region.
_ONE_WORKER = (0, 1, 0, 0, 0, 0)
_ONLY = 12  # bytes before that word


class InWasmtime:
    """An instance of a module in wasmtime. `note` says where a run was."""

    threads = 1

    def __init__(self, module: bytes, manifest: Manifest, interface: CInterface, weights: Array) -> None:
        """Compile the module, and copy the weights into its memory. Raises `EnvironmentError_` without wasmtime."""
        self.manifest, self._interface = manifest, interface
        self.note = f"wasmtime {importlib.metadata.version('wasmtime')}"
        self._machine = machine = Machine(module)
        self._weights = machine.take(weights.nbytes)
        machine.write(self._weights, weights)
        context = np.array(_ONE_WORKER, "<i4").tobytes()
        self._context = machine.take(len(context))
        machine.write(self._context, context)
        machine.keep()
        sizes = manifest.dynamic
        self._sizes = None if sizes is None else ShapeProgram(sizes, manifest.inputs, manifest.alignment)

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs. Raises `InputError` where a check of the model fails."""
        shapes = self._lay_out(arrays)
        self._call()
        results = []
        for index, (spec, shape) in enumerate(zip(self.manifest.outputs, shapes, strict=True)):
            count = int(np.prod(shape, dtype=np.int64))
            data = self._machine.read(self._addresses[len(arrays) + index], count * spec.numpy.itemsize)
            results.append(np.frombuffer(data, spec.numpy, count).reshape(shape).copy())
        return results

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
        self._call()
        return time.perf_counter() - start

    def _lay_out(self, arrays: Sequence[Array]) -> list[tuple[int, ...]]:
        """Lay memory out, write the inputs and the slots; the shapes of the outputs."""
        machine, outputs = self._machine, self.manifest.outputs
        machine.release()
        arena, scratch, table = self._interface.arena_bytes, self._interface.scratch_bytes, b""
        if self._sizes is None:
            shapes = [spec.static_shape for spec in outputs]
        else:
            plan = self._sizes.plan(arrays)
            arena, scratch, shapes = plan.arena_bytes, plan.scratch_bytes, list(plan.outputs)
            table = np.array(plan.table, "<i8").tobytes()
        sizes = [int(np.prod(shape, dtype=np.int64)) * spec.numpy.itemsize for spec, shape in zip(outputs, shapes)]
        self._addresses = [machine.take(size) for size in (*[array.nbytes for array in arrays], *sizes)]
        slots = [*self._addresses, self._weights, machine.take(arena), machine.take(scratch)]
        if table:
            slots.append(machine.take(len(table)))
            machine.write(slots[-1], table)
        self._slots = machine.take(8 * len(slots))
        machine.write(self._slots, np.array(slots, "<u8").tobytes())
        for array, address in zip(arrays, self._addresses, strict=False):
            machine.write(address, np.ascontiguousarray(array).tobytes())
        return shapes

    def _call(self) -> None:
        code = self._machine.call("run", self._slots, self._context)
        if code:
            raise InputError(f"the model stopped: {failure_text(self.manifest.messages, code)}")
