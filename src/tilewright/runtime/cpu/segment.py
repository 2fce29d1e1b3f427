"""`Segment`: one execution plan as one native call, with fixed sizes or with sizes known at run time only.

The plan names the entry, the inputs and outputs and the memory that it works in. The entry takes one array of
addresses: the inputs, the outputs, the weights, the arena and the workers' scratch; with symbolic dimensions also a
table of 64-bit integers, the dimensions and the offsets that follow from them (`runtime.shape_program`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tilewright.runtime.cpu.working_memory import WorkingMemory
from tilewright.runtime.link import Linked
from tilewright.runtime.memory import Array, address_of
from tilewright.runtime.native import native
from tilewright.runtime.output_memory import OutputMemory
from tilewright.runtime.plan import ExecutionPlan
from tilewright.runtime.shape_program import RunPlan, ShapeProgram
from tilewright.runtime.signature import TensorSpec, bind, checked_outputs

_RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)

#: Bytes up to which an output need not begin on a cache line.
_SMALL = 1024


class Segment:
    """One native function and what it needs. Not for use by several threads at a time: the owner holds a lock."""

    def __init__(
        self,
        manifest: ExecutionPlan,
        linked: Linked,
        weights: Array,
        memory: WorkingMemory,
        shapes: ShapeProgram | None = None,
    ) -> None:
        self.manifest = manifest
        self.inputs = manifest.inputs
        self.outputs = manifest.outputs
        self.entry = linked.addresses[manifest.entry_symbol]
        self.memory = memory
        self.shapes = (
            None if manifest.dynamic is None else ShapeProgram(manifest.dynamic, self.inputs, manifest.alignment)
        )
        self.scratch_bytes = manifest.worker_workspace_bytes
        count = len(self.inputs) + len(self.outputs)
        table = 0 if self.shapes is None else 1
        self._slots = (ctypes.c_uint64 * (count + 3 + table))()
        self._slots[count] = address_of(weights)
        self._count = count
        self.slots_address = ctypes.addressof(self._slots)
        self._table: Any = None
        self._plan: RunPlan | None = None
        run = linked.find(manifest.run_symbol)
        #: Runs what was prepared, by the address of the slots and the number of workers; 0 or the code of a failure.
        self.run: Callable[[int, int], int] = partial(native().parallel_run, self.entry) if run is None else _RUN(run)
        self.run_address = run or 0
        #: The address of what several workers run, and how `tilewright_steps` calls it.
        self.shared_entry = (self.entry, 1) if run is None else (run, 2)
        self._output_memory = OutputMemory(2 * len(self.outputs))
        # What `invoke` looks at for each call, as plain tuples.
        self._wanted = [(i, spec, spec.numpy, spec.shape) for i, spec in enumerate(self.inputs)]
        static = self.shapes is None and all(spec.is_static for spec in self.outputs)
        positions = range(len(self.inputs), count)
        self._made = (
            [(i, s.static_shape, s.numpy, self._maker(s)) for i, s in zip(positions, self.outputs)] if static else None
        )

    def reserve(self, threads: int) -> None:
        """Provide the memory that is known to be needed for `threads` workers."""
        self.memory.reserve(self.manifest.arena_bytes, self.scratch_bytes * threads)

    def prepare(self, arrays: Sequence[Array], given: Sequence[Array] | None, threads: int) -> list[Array]:
        """Set all addresses up for a run on `arrays`, which are checked; the arrays that it will fill."""
        if self.shapes is not None:
            self._follow(self.shapes.plan(arrays), threads)
        results = self.results(given, self.output_shapes())
        slots, count = self._slots, self._count
        for i, array in enumerate(arrays):
            slots[i] = address_of(array)
        for i, array in enumerate(results, len(arrays)):
            slots[i] = address_of(array)
        slots[count + 1] = self.memory.arena.address
        slots[count + 2] = self.memory.scratch.address
        return results

    def set_result(self, number: int, rows: Array, row: int) -> None:
        """Have result `number` written to `rows[row]`, in the run that was prepared last."""
        self._slots[len(self.inputs) + number] = address_of(rows) + row * rows.strides[0]

    def execute(self, arrays: Sequence[Array], given: Sequence[Array] | None, threads: int) -> tuple[list[Array], int]:
        """Run on `arrays`, which are checked; the outputs, and 0 or the code of a failed check."""
        if given is not None or self._made is None:
            return self.prepare(arrays, given, threads), self.run(self.slots_address, threads)
        slots, count, memory, empty = self._slots, self._count, self.memory, self._output_memory.empty
        for i, array in enumerate(arrays):
            slots[i] = address_of(array)
        results = []
        for i, shape, dtype, _ in self._made:
            array = empty(shape, dtype)
            slots[i] = address_of(array)
            results.append(array)
        slots[count + 1], slots[count + 2] = memory.arena.address, memory.scratch.address
        return results, self.run(self.slots_address, threads)

    def invoke(self, values: Sequence[Any], threads: int) -> tuple[list[Array], int]:
        """Run on `values`, which are checked; the outputs, and 0 or the code of a failed check."""
        if self._made is None:
            arrays = [
                bind(value, spec) for value, spec in zip(values, self.inputs)
            ]  # which live until the call is over
            results = self.prepare(arrays, None, threads)
            return results, self.run(self.slots_address, threads)
        slots, count, memory = self._slots, self._count, self.memory
        kept = []  # arrays made here live until the call is over
        for value, (i, spec, dtype, shape) in zip(values, self._wanted):
            array = value
            if not (type(value) is np.ndarray and value.dtype is dtype and value.shape == shape and value.flags.carray):
                array = bind(value, spec)
                kept.append(array)
            slots[i] = address_of(array)
        results = []
        for i, shape, dtype, make in self._made:
            array = make(shape, dtype)
            slots[i] = address_of(array)
            results.append(array)
        slots[count + 1], slots[count + 2] = memory.arena.address, memory.scratch.address
        return results, self.run(self.slots_address, threads)

    def _maker(self, spec: TensorSpec) -> Callable[[Any, Any], Array]:
        """The allocator of an output: where it is small, a cache line's alignment is not worth the microsecond."""
        small = spec.nbytes <= _SMALL
        return np.empty if small else self._output_memory.empty

    def output_shapes(self) -> Sequence[tuple[int, ...]]:
        """The shapes of the outputs of the run that was prepared last."""
        return self._plan.outputs if self._plan is not None else [spec.static_shape for spec in self.outputs]

    def bases(self, arrays: Sequence[Array], results: Sequence[Array]) -> dict[str, Any]:
        """The memory of the run that was prepared last, as `profile_kernels` takes it."""
        plan = self._plan
        return {
            "input": [address_of(array) for array in arrays],
            "output": [address_of(array) for array in results],
            "weights": self._slots[self._count],
            "arena": self.memory.arena.address,
            "scratch": self.memory.scratch.address,
            "table": plan.table if plan is not None else (),
            "stride": plan.scratch_bytes if plan is not None else self.scratch_bytes,
        }

    def _follow(self, plan: RunPlan, threads: int) -> None:
        if plan is not self._plan:
            self._table = (ctypes.c_int64 * len(plan.table))(*plan.table)
            self._slots[self._count + 3] = ctypes.addressof(self._table)
            self._plan = plan
        self.memory.reserve(plan.arena_bytes, plan.scratch_bytes * threads)

    def results(self, given: Sequence[Array] | None, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        """The arrays of `shapes` that a run fills: fresh ones, or those given, which are checked.

        Raises InputError unless those are one for each output, fit it, are writable and C-contiguous.
        """
        if given is None:
            make = self._output_memory.empty
            return [make(shape, spec.numpy) for spec, shape in zip(self.outputs, shapes)]
        return checked_outputs(given, self.outputs, shapes)
