"""`AheadOfTime`: a model run by one C function of its own, ``main__call``, as a program in C runs an exported library.

The function takes the dimensions, the inputs, the outputs, the weights, a workspace and the number of threads. It plans
the memory of symbolic sizes itself; here it is only asked how much workspace and which outputs to provide.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tilewright.errors import ArtifactError, InputError
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.executor import Executable
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array, Region, address_of
from tilewright.runtime.module import failure_text
from tilewright.runtime.profile import KernelTime
from tilewright.runtime.signature import by_name

_CALL = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 5, ctypes.c_int32)


class AheadOfTime(Executable):
    """A compiled model in memory, with the methods of `Executable`; nothing of an inference happens in Python."""

    executor = "aot"

    def __init__(self, object_code: bytes, manifest: Manifest, weights: Any = b"", threads: int | None = None):
        """Link a compiled model; arguments and errors are those of `Executable`."""
        self._workspace = Region(0)
        self._interface = CInterface.of(manifest)
        super().__init__(object_code, manifest, weights, threads)
        assert self._program.native is not None, "compiled for a processor"
        self._segment = self._program.native.segments[0]
        address = self._program.native.linked.find(self._interface.call_symbol)
        if address is None:
            raise ArtifactError(
                f"the object code does not link in this process: nothing defines {self._interface.call_symbol!r}"
            )
        self._function = _CALL(address)
        self._weights_address = address_of(self._weights)
        self._dims = (ctypes.c_int64 * max(len(self._interface.dims), 1))()
        self._given = (ctypes.c_uint64 * max(len(self.inputs), 1))()
        self._filled = (ctypes.c_uint64 * max(len(self.outputs), 1))()

    def time(self, inputs: Mapping[str, Any], repeat: int = 10, warmup: int = 1) -> list[float]:
        """Seconds of each of `repeat` runs: the native call alone, inputs and outputs prepared once."""
        arrays = by_name(inputs, self.inputs)
        times = []
        with self._turn():
            results, call = self._prepared(arrays, None)
            for turn in range(warmup + repeat):
                start = time.perf_counter()
                code = call()
                if turn >= warmup:
                    times.append(time.perf_counter() - start)
                self._check(code)
        del results
        return times

    def profile(self, inputs: Mapping[str, Any], repeat: int = 1) -> list[KernelTime]:
        """Run kernel by kernel, each as a call of its own, and time each: `Executable.profile`."""
        self._segment.reserve(self.threads)
        return super().profile(inputs, repeat)

    def _infer(self, arrays: list[Array], outputs: Sequence[Array] | None) -> list[Array]:
        with self._turn():
            results, call = self._prepared(arrays, outputs)
            code = call()
        self._check(code)
        return results

    def _reserve(self, workers: int) -> None:
        self._provide(self._interface.arena_bytes + self._interface.scratch_bytes * workers)

    def _provide(self, nbytes: int) -> None:
        if nbytes > self._workspace.size:
            self._workspace = Region(nbytes)

    def _prepared(
        self, arrays: Sequence[Array], outputs: Sequence[Array] | None
    ) -> tuple[list[Array], Callable[[], int]]:
        """The arrays that a run on `arrays` fills, and that run."""
        if self._segment.shapes is not None:
            plan = self._segment.shapes.plan(arrays)
            self._dims[:] = list(plan.table[: len(self._dims)])
            self._provide(plan.arena_bytes + plan.scratch_bytes * self.threads)
            shapes: Sequence[tuple[int, ...]] = plan.outputs
        else:
            shapes = [spec.static_shape for spec in self.outputs]
        results = self._segment.results(outputs, shapes)
        for index, array in enumerate(arrays):
            self._given[index] = address_of(array)
        for index, array in enumerate(results):
            self._filled[index] = address_of(array)
        positions = [ctypes.addressof(memory) for memory in (self._dims, self._given, self._filled)]
        return results, partial(
            self._function, *positions, self._weights_address, self._workspace.address, self.threads
        )

    def _check(self, code: int) -> None:
        if code:
            raise InputError(f"the model stopped: {failure_text(self._interface.errors, code)}")
