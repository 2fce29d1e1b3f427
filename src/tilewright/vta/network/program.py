"""`Program` of models for the accelerator: plans whose calls are native kernels of the processor, and programs of VTA.

    fused_cast(input 0, arena + 0); vta_pack(arena + 0, arena + 64)
    vta_launch(arena + 64, weights + 4096, arena + 9000); vta_wait(arena + 9000, arena + 64, output 0)

Native calls that follow each other are one run of the worker pool. A program of the accelerator has its DRAM filled
once, with what the weights hold for it. Operands come as tiles in a block of the arena, and results go there; from its
launch to its wait it runs in a thread of its own, beside the processor's calls.
"""

from __future__ import annotations

import ctypes
import json
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
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
from tilewright.vta.network.block import pack_operands, unpack_results
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


class Accelerator:
    """The accelerator of this process, a thread that runs one program after another, and what it is at work on.

    `sessions` have the DRAM of each image, by its address: runs of one program on several blocks share it.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "tilewright-vta")
        self._sessions: dict[int, Session] = {}
        self._running: dict[int, Future[None]] = {}

    def session(self, program: Mapping[str, Any], image: int) -> Session:
        """The session of a program whose image lies at an address of this process."""
        if image not in self._sessions:
            plan = program["plan"]
            data = _array(image, (plan["dram"] - plan["base"],), np.dtype(np.uint8))
            self._sessions[image] = Session(plan, data, program["driver"])
        return self._sessions[image]

    def launch(self, session: Session, block: Array) -> None:
        """Begin a run on a block, behind those that were begun before."""
        self._running[address_of(block)] = self._thread.submit(session.execute, block)

    def wait(self, block: Array) -> None:
        """Wait until the run on a block has ended. Raises what stopped it."""
        if address_of(block) in self._running:
            self._running[address_of(block)].result()

    def drain(self) -> None:
        """Wait until nothing runs any more, whatever it ended with, and forget it."""
        wait(self._running.values())
        self._running.clear()


class Region:
    """A call of a step of a program: operands into a block, launch, or wait and results out of it."""

    def __init__(
        self, call: KernelCall, program: Mapping[str, Any], bases: Mapping[str, int], accelerator: Accelerator
    ) -> None:
        self.call, self.step, self._plan = call, program["step"], program["plan"]
        self._accelerator = accelerator
        if self.step == "launch":
            self.session = accelerator.session(program, _address(call.args[1], bases, ()))

    def run(self, bases: Mapping[str, Any], table: Sequence[int]) -> None:
        """Run it on memory of the host, whose addresses come in `bases`."""
        addresses = [_address(where, bases, table) for where in self.call.args]
        block = _array(addresses[_BLOCK[self.step]], (self._plan["base"],), np.dtype(np.uint8))
        if self.step == "launch":
            self._accelerator.launch(self.session, block)
        elif self.step == "pack":
            shapes = {known["operand"]: known["source"] for known in self._plan["inputs"]}
            operands = [np.zeros(0, np.int8)] * (1 + max(shapes))
            for number, shape in shapes.items():
                operands[number] = _array(addresses[number], shape, _INT8)
            pack_operands(self._plan, operands, block)
        else:
            self._accelerator.wait(block)
            for address, result in zip(addresses[2:], unpack_results(self._plan, block), strict=True):
                _array(address, result.shape, result.dtype)[...] = result

    def time(self, bases: Mapping[str, Any], table: Sequence[int]) -> float:
        """Seconds of a run; of a launch those until the program has ended."""
        start = time.perf_counter()
        self.run(bases, table)
        if self.step == "launch":
            self._accelerator.drain()
        return time.perf_counter() - start


#: The argument of each step that is the block.
_BLOCK = {"pack": -1, "launch": 0, "wait": 1}


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
        fixed, self.accelerator = {"weights": address_of(weights)}, Accelerator()
        self.parts = [
            [
                Region(part, programs[part.name], fixed, self.accelerator)
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
        if not programs or not all("step" in program for program in programs.values()):
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
            try:
                for part in self.parts[number]:
                    if isinstance(part, Region):
                        part.run(bases, table)
                        continue
                    part.prepare(arrays, results, workers)
                    code = part.run(part.slots_address, workers)
                    if code:
                        return results, code
            finally:
                self.accelerator.drain()  # it writes to the arena, also where a check failed
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
                least = min(least, part.time(bases, table))
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
