"""Times of single kernels: the calls of an execution plan one by one, each through the kernel's own entry."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import ArtifactError
from tilewright.runtime.link import Linked, link
from tilewright.runtime.native import native
from tilewright.runtime.plan import ExecutionPlan, KernelCall


@dataclass(frozen=True)
class KernelTime:
    """One kernel call: the kernel's name, the source nodes it computes, and the seconds it took.

    `flops` and `nbytes` are the operations of its mathematics and the bytes of inputs, weights and outputs; `choice`
    is what the manifest tells of its schedule. They are 0 and empty where the manifest does not say. `shares` are the
    begin and end of each worker in one further run, in seconds of `time.perf_counter`, (0, 0) for one that had none;
    empty where the compiler, which makes the code that looks at the clock, is not in this process. `occupancy` is the
    share of a GPU's threads that are resident, None where that is not known.
    """

    kernel: str
    source: str
    seconds: float
    flops: int = 0
    nbytes: int = 0
    choice: Mapping[str, Any] = field(default_factory=dict)
    shares: tuple[tuple[float, float], ...] = ()
    occupancy: float | None = None


@dataclass(frozen=True)
class _Call:
    """A prepared call: what `parallel_run` is given, and the ctypes memory behind it."""

    function: int
    argument: int
    memory: tuple[Any, ...]


def profile_kernels(
    linked: Linked,
    manifest: ExecutionPlan,
    bases: Mapping[str, Any],
    threads: int,
    repeat: int,
    check: Callable[[int], None],
) -> list[KernelTime]:
    """Time each kernel of one inference, `repeat` times in order; the least time of each. Addresses come in `bases`.

    One worker is the calling thread: what it did not compute in, because others had its processor, does not count.
    """
    kernels = manifest.kernels
    stride = int(bases.get("stride", manifest.worker_workspace_bytes))
    calls = [_prepare(linked, kernel, bases, stride) for kernel in kernels]
    run, clock, own = native().parallel_run, time.perf_counter, time.thread_time
    best = [float("inf")] * len(calls)
    for _ in range(max(repeat, 1)):
        for i, call in enumerate(calls):
            computed, start = own(), clock()
            code = run(call.function, call.argument, threads)
            seconds = clock() - start
            best[i] = min(best[i], seconds if threads > 1 else min(seconds, own() - computed))
            check(code)
    shares = _shares(calls, threads, check)
    return [_row(kernel, seconds, share) for kernel, seconds, share in zip(kernels, best, shares)]


def _row(kernel: KernelCall, seconds: float, shares: tuple[tuple[float, float], ...]) -> KernelTime:
    known = kernel.flops or 0, kernel.bytes or 0, kernel.choice
    return KernelTime(kernel.name, kernel.source_text, seconds, *known, shares)


def _shares(calls: list[_Call], threads: int, check: Callable[[int], None]) -> list[tuple[tuple[float, float], ...]]:
    """Each call once more, in order: when each worker began and ended."""
    timer = _timer()
    if timer is None:
        return [()] * len(calls)
    found = []
    for call in calls:
        times = (ctypes.c_int64 * (2 * threads))()
        record = (ctypes.c_uint64 * 3)(call.function, call.argument, ctypes.addressof(times))
        check(native().parallel_run(timer, ctypes.addressof(record), threads))
        found.append(tuple((times[i] / 1e9, times[i + 1] / 1e9) for i in range(0, 2 * threads, 2)))
    return found


_build_timer: Callable[[], bytes] | None = None
_linked_timer: Linked | None = None


def provide_timer(build: Callable[[], bytes]) -> None:
    """Take from `build` the code that times the share of a worker: by the compiler, when it is there."""
    global _build_timer
    _build_timer = build


def _timer() -> int | None:
    """The address of that code; None without a compiler."""
    global _linked_timer
    if _linked_timer is None and _build_timer is not None:
        _linked_timer = link(_build_timer(), ["tilewright_timed_call"])
    return None if _linked_timer is None else _linked_timer.addresses["tilewright_timed_call"]


def _prepare(linked: Linked, kernel: KernelCall, bases: Mapping[str, Any], stride: int) -> _Call:
    entry = linked.find(f"{kernel.name}__entry")
    if entry is None:
        raise ArtifactError(f"kernel {kernel.name!r} of the manifest is not in the model's object code")
    args = kernel.args
    slots = (ctypes.c_uint64 * max(len(args), 1))()
    private = None
    table = bases.get("table", ())
    for i, arg in enumerate(args):
        if arg.space in ("input", "output"):
            slots[i] = bases[arg.space][arg.offset]
        elif arg.space == "table":
            slots[i] = table[arg.offset]
        else:
            slots[i] = bases[arg.space] + arg.offset + sum(table[entry] for entry in arg.slots)
            private = i if arg.space == "scratch" else private
    address = ctypes.addressof(slots)
    if private is None:
        return _Call(entry, address, (slots,))
    record = (ctypes.c_uint64 * 5)(entry, address, len(args), private, stride)
    return _Call(native().call_with_worker_memory, ctypes.addressof(record), (slots, record))
