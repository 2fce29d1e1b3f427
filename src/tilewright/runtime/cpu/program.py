"""`Program` of processors: object code linked into this process, a native call a run, all plans on one arena."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from tilewright.runtime.contract import check_contract
from tilewright.runtime.cpu.ahead_of_time import AheadOfTime
from tilewright.runtime.cpu.segment import Segment
from tilewright.runtime.cpu.working_memory import WorkingMemory
from tilewright.runtime.link import Linked, link
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array
from tilewright.runtime.native import PoolCode, native
from tilewright.runtime.profile import KernelTime, profile_kernels
from tilewright.runtime.program import Caller, Runner
from tilewright.runtime.program import Program as AnyProgram
from tilewright.runtime.threads import MAX_WORKERS, available_processors, default_workers
from tilewright.support.log import DEBUG, log


class Program(AnyProgram):
    """The linked code of a model, and the memory that its plans work in."""

    def __init__(self, manifest: Manifest, linked: Linked, weights: Array) -> None:
        super().__init__(manifest, weights)
        self.linked = linked
        self.memory = WorkingMemory(manifest.arena_bytes)
        self.segments = [
            Segment(plan, linked, weights, self.memory, shapes) for plan, shapes in zip(self.plans, self.shapes)
        ]

    @classmethod
    def load(cls, manifest: Manifest, code: bytes, weights: Array) -> Self:
        """Link the code, and check that it was compiled for the manifest."""
        linked = link(code, [plan.entry_symbol for plan in manifest.plans], native().imports())
        check_contract(linked, manifest, int(weights.size))
        return cls(manifest, linked, weights)

    @classmethod
    def executors(cls) -> Mapping[str, Callable[..., Any]]:
        """Those that are one function of their code."""
        return {AheadOfTime.executor: AheadOfTime}

    @property
    def native(self) -> Program:
        """Itself."""
        return self

    @property
    def pool(self) -> PoolCode:
        """This process's worker pool."""
        return native().pool

    def runner(self, number: int) -> Runner:
        """One native call."""
        return self.segments[number].execute

    def caller(self, number: int) -> Caller:
        """The same with fewer checks of values that are as they should be."""
        return self.segments[number].invoke

    def workers(self, threads: int | None) -> int:
        """As many as the process may use; a model too small to share out has a bound in its manifest."""
        found = min(default_workers(threads), self.manifest.max_workers or MAX_WORKERS)
        native().set_processors(available_processors())
        log(DEBUG, "%d workers, of %d processors that this process may use", found, available_processors())
        return found

    def reserve(self, workers: int) -> None:
        """The arena, and the scratch memory of each worker."""
        for segment in self.segments:
            segment.reserve(workers)

    def time(
        self, number: int, arrays: Sequence[Array], workers: int, repeat: int, warmup: int, check: Callable[[int], None]
    ) -> list[float]:
        """Seconds of each of `repeat` runs: the native call alone, inputs and outputs prepared once."""
        segment, clock, times = self.segments[number], time.perf_counter, []
        results = segment.prepare(arrays, None, workers)
        run, slots = segment.run, segment.slots_address
        for _ in range(warmup):
            check(run(slots, workers))
        for _ in range(repeat):
            start = clock()
            run(slots, workers)
            times.append(clock() - start)
        del results
        return times

    def profile(
        self, number: int, arrays: Sequence[Array], workers: int, repeat: int, check: Callable[[int], None]
    ) -> list[KernelTime]:
        """Kernel by kernel, each by a launch of its own, so that their sum is a little more than a run takes."""
        segment = self.segments[number]
        results = segment.prepare(arrays, None, workers)
        bases: dict[str, Any] = segment.bases(arrays, results)
        return profile_kernels(self.linked, segment.manifest, bases, workers, repeat, check)
