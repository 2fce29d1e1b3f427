"""`Program` of models for the accelerator: plans whose calls are native kernels of the processor, and programs of VTA.

    fused_cast(input 0, arena + 0); vta_program(arena + 0, weights + 4096, output 0)

Native calls that follow each other are one run of the worker pool. A program of the accelerator has its DRAM filled
once, with what the weights hold for it; a call copies operands there as tiles and results back.
"""

from __future__ import annotations

import ctypes
import json
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from tilewright.errors import ArtifactError
from tilewright.runtime.contract import check_contract
from tilewright.runtime.cpu.segment import Segment
from tilewright.runtime.cpu.working_memory import WorkingMemory
from tilewright.runtime.link import Linked, bundle_objects, link, split_objects
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array, address_of
from tilewright.runtime.native import PoolCode, native
from tilewright.runtime.plan import ExecutionPlan, KernelCall, Location
from tilewright.runtime.profile import KernelTime, profile_kernels
from tilewright.runtime.program import Program as AnyProgram
from tilewright.runtime.program import Runner
from tilewright.runtime.threads import MAX_WORKERS, available_processors, default_workers
from tilewright.vta.network.session import Session

#: How the part of a model's code begins that has the accelerator's programs, as JSON.
_PROGRAMS = b"{"
_INT8 = np.dtype(np.int8)


def encoded_programs(programs: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The code of kernels that are programs of the accelerator: of each its plan and the kind of driver, by name."""
    return json.dumps(programs).encode()


def parted(code: bytes) -> tuple[list[bytes], dict[str, Any]]:
    """The objects in the code of a model, and the accelerator's programs by name."""
    objects, programs = [], {}
    for part in split_objects(code):
        if part.startswith(_PROGRAMS):
            programs.update(json.loads(part))
        else:
            objects.append(part)
    return objects, programs


def parts_of(plan: ExecutionPlan, programs: Collection[str]) -> Iterator[ExecutionPlan | KernelCall]:
    """The calls of a plan in order: native ones in plans of their own, which the processor runs, and `programs`."""
    together: list[KernelCall] = []
    for number, call in enumerate((*plan.kernels, None)):
        if call is not None and call.name not in programs:
            together.append(call)
            continue
        if together:
            yield replace(plan, entry=f"{plan.entry}_part{number}", kernels=tuple(together))
            together = []
        if call is not None:
            yield call


class Region:
    """A call of a program of the accelerator, with the session that has its weights in DRAM."""

    def __init__(self, call: KernelCall, program: Mapping[str, Any], bases: Mapping[str, int]) -> None:
        self.call, plan = call, program["plan"]
        self._inputs = {known["operand"]: tuple(known["source"]) for known in plan["inputs"]}
        *self._operands, self._image = call.args[: len(call.args) - len(plan["outputs"])]
        self._results = call.args[len(call.args) - len(plan["outputs"]) :]
        image = _array(_address(self._image, bases, ()), (plan["dram"] - plan["base"],), np.dtype(np.uint8))
        self.session = Session(plan, image, program["driver"])

    def run(self, bases: Mapping[str, Any], table: Sequence[int]) -> None:
        """Run it on memory of the host, whose addresses come in `bases`."""
        operands = {n: _array(_address(self._operands[n], bases, table), s, _INT8) for n, s in self._inputs.items()}
        found = self.session.run([operands.get(n, np.zeros(0, np.int8)) for n in range(len(self._operands))])
        for where, result in zip(self._results, found, strict=True):
            _array(_address(where, bases, table), result.shape, result.dtype)[...] = result


def _address(where: Location, bases: Mapping[str, Any], table: Sequence[int]) -> int:
    if where.space in ("input", "output"):
        return int(bases[where.space][where.offset])
    return int(bases[where.space]) + where.offset + sum(table[entry] for entry in where.slots)


def _array(address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """The tensor at an address of this process."""
    nbytes = math.prod(shape) * dtype.itemsize
    memory: Any = (ctypes.c_uint8 * nbytes).from_address(address)
    return np.frombuffer(memory, dtype).reshape(tuple(shape))


class Program(AnyProgram):
    """The linked code of a model, the accelerator's programs, and the memory that plans work in."""

    def __init__(self, manifest: Manifest, linked: Linked, weights: Array, programs: Mapping[str, Any]) -> None:
        super().__init__(manifest, weights)
        self.linked, self.memory = linked, WorkingMemory(manifest.arena_bytes)
        fixed = {"weights": address_of(weights)}
        self.parts = [
            [
                Region(part, programs[part.name], fixed)
                if isinstance(part, KernelCall)
                else Segment(part, linked, weights, self.memory, shapes)
                for part in parts_of(plan, programs)
            ]
            for plan, shapes in zip(self.plans, self.shapes)
        ]

    @classmethod
    def load(cls, manifest: Manifest, code: bytes, weights: Array) -> Self:
        """Link the processor's code, and fill the DRAM of each program."""
        objects, programs = parted(code)
        if not programs:
            raise ArtifactError("the model is for VTA and has no program for it. Compile the model again")
        parts = [part for plan in manifest.plans for part in parts_of(plan, programs)]
        entries = [part.entry_symbol for part in parts if isinstance(part, ExecutionPlan)]
        linked = link(bundle_objects(objects), entries, native().imports())
        check_contract(linked, manifest, int(weights.size))
        return cls(manifest, linked, weights, programs)

    @property
    def pool(self) -> PoolCode:
        """This process's worker pool."""
        return native().pool

    def workers(self, threads: int | None) -> int:
        """As many as the process may use."""
        native().set_processors(available_processors())
        return min(default_workers(threads), self.manifest.max_workers or MAX_WORKERS)

    def runner(self, number: int) -> Runner:
        """Part by part, in one arena."""

        def run(arrays: Sequence[Array], given: Sequence[Array] | None, workers: int) -> tuple[list[Array], int]:
            results, bases, table = self._prepared(number, arrays, given, workers)
            for part in self.parts[number]:
                if isinstance(part, Region):
                    part.run(bases, table)
                    continue
                part.prepare(arrays, results, workers)
                code = part.run(part.slots_address, workers)
                if code:
                    return results, code
            return results, 0

        return run

    def profile(
        self, number: int, arrays: Sequence[Array], workers: int, repeat: int, check: Callable[[int], None]
    ) -> list[KernelTime]:
        """Native kernels one by one, and each program of the accelerator with the copies of its operands."""
        results, bases, table = self._prepared(number, arrays, None, workers)
        rows: list[KernelTime] = []
        for part in self.parts[number]:
            if isinstance(part, Segment):
                part.prepare(arrays, results, workers)
                rows += profile_kernels(self.linked, part.manifest, part.bases(arrays, results), workers, repeat, check)
                continue
            least, call = math.inf, part.call
            for _ in range(max(repeat, 1)):
                start = time.perf_counter()
                part.run(bases, table)
                least = min(least, time.perf_counter() - start)
            known = call.flops or 0, call.bytes or 0, call.choice
            rows.append(KernelTime(call.name, call.source_text, least, *known))
        return rows

    def _prepared(
        self, number: int, arrays: Sequence[Array], given: Sequence[Array] | None, workers: int
    ) -> tuple[list[Array], dict[str, Any], Sequence[int]]:
        """The results to fill, the addresses of all memory, and the table of symbolic sizes."""
        plan, shapes = self.plans[number], self.shapes[number]
        sizes = None if shapes is None else shapes.plan(arrays)
        arena, scratch = plan.arena_bytes, plan.worker_workspace_bytes
        if sizes is not None:
            arena, scratch = sizes.arena_bytes, sizes.scratch_bytes
        self.memory.reserve(arena, scratch * workers)
        outputs = [spec.static_shape for spec in plan.outputs] if sizes is None else list(sizes.outputs)
        results = self.results(number, given, outputs)
        bases = {
            "input": [address_of(array) for array in arrays],
            "output": [address_of(array) for array in results],
            "weights": address_of(self.weights),
            "arena": self.memory.arena.address,
        }
        return results, bases, () if sizes is None else sizes.table
