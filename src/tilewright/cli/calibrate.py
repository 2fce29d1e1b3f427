"""`tilewright doctor --calibrate`: the figures of `Machine`, measured on this one in about three seconds.

    machine = measure()                       # the shipped figures, replaced by those that can be measured
    for row in compare(known, machine): ...   # what differs

Every figure is the best of short rounds with rests between: other work on a shared machine makes a round slower, never
faster. Cycles are of the clock that an instruction chain of known length shows beside vector arithmetic, so that no
figure needs a processor's nominal frequency. What arithmetic ports do is rounded to whole instructions.
"""

from __future__ import annotations

import dataclasses
import mmap
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from tilewright.backend.build import build
from tilewright.cli.peak import copy_bandwidth, fastest, memory_sizes, read_rate
from tilewright.cli.peak_kernels import (
    ACCUMULATORS,
    STEPS,
    barrier_kernel,
    clock_kernel,
    dot_kernel,
    exponential,
    fma_kernel,
    gathered_vector,
    lanes,
    quotient,
    shuffle_kernel,
    spread_element,
    store_kernel,
    stream_kernel,
    stride,
    sum_of_lanes,
    whole_vectors,
)
from tilewright.machine import Bandwidth, Machine
from tilewright.runtime.memory import Array, aligned_empty
from tilewright.runtime.module import Module
from tilewright.runtime.threads import available_processors
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.lower_intrinsics import lower_intrinsics

#: Seconds that each figure is measured for, by default; memory takes twice as long.
EACH = 0.04
#: Two figures that differ by more than this are not the same.
TOLERANCE = 0.15

_ROUNDS = 5_000
_BARRIERS = 1_000
#: Passes of a call over data in L1.
_PASSES = 100
#: Bytes read to measure memory: a gigabyte, as `memory_sizes` has it, would take too long to fill.
_MEMORY_BYTES = 256 << 20
_TERMS = {
    "vector_loads": whole_vectors, "broadcast_loads": spread_element, "gather": gathered_vector,
    "horizontal_sum": sum_of_lanes, "division": quotient, "exp": exponential,
}  # fmt: skip
#: Loads in one of these terms; the rates are those that loops keep up, which stay below the number of ports.
_LOADS = {"vector_loads": 2, "broadcast_loads": 1}


@dataclasses.dataclass(frozen=True)
class Row:
    """One figure: what the table has and what was measured; `differs` by more than `TOLERANCE`."""

    figure: str
    known: float
    measured: float

    @property
    def differs(self) -> bool:
        """True if one is more than `TOLERANCE` above the other."""
        low, high = sorted((self.known, self.measured))
        return high > (1 + TOLERANCE) * low


def measure(known: Machine, each: float = EACH, sizes: Mapping[str, int] | None = None) -> Machine:
    """The figures of this machine; those of `known` where nothing is measured (`kernel_start`, ways, lines).

    `each` is in seconds. `sizes` are the bytes to read of "L2", "L3" and "DRAM" (default: `memory_sizes`).
    """
    sizes = {**memory_sizes(), "DRAM": min(memory_sizes()["DRAM"], _MEMORY_BYTES)} if sizes is None else sizes
    meter = _Meter(known, each)
    found = _arithmetic(meter)
    found |= _level_one(meter)
    found |= _memory(meter, sizes)
    found["barrier"] = _rounded(meter.cycles("barriers", (_BARRIERS,), _BARRIERS, workers=meter.workers))
    found |= {"ghz": _rounded(meter.ghz), "page": mmap.PAGESIZE}
    return dataclasses.replace(known, **found)  # type: ignore[arg-type]


def compare(known: Machine, measured: Machine) -> list[Row]:
    """The measured figures, each beside the known one."""
    rows = []
    for field in dataclasses.fields(Machine):
        a, b = getattr(known, field.name), getattr(measured, field.name)
        if isinstance(a, Bandwidth):
            rows += [Row(f"{field.name}, {who}", getattr(a, who), getattr(b, who)) for who in ("one", "all")]
        elif field.name == "l3":
            rows.append(Row("l3, bytes of it", a.size, b.size))
        elif field.name in MEASURED:
            rows.append(Row(field.name, a, b))
    return rows


class _Meter:
    """The kernels, built once, and the clock in cycles a second."""

    def __init__(self, known: Machine, each: float) -> None:
        self.known, self.each, self.workers = known, each, available_processors()
        target = Target.host()
        built = build(_kernels(known), target, 1)
        shared = Module(built.object_code, built.functions.values(), built.messages, str(target), self.workers)
        self.modules = {1: built, self.workers: shared}
        self.ghz = 0.0
        self._tick(2 * each)

    def _tick(self, seconds: float) -> float:
        """The clock now, in GHz; `ghz` is the fastest that was seen."""
        out, total = np.zeros(lanes(), np.float32), np.zeros(1, np.int32)
        best = fastest(self.modules[1], "clock", (out, total, _ROUNDS, 7, 0.5), seconds)
        clock = 2 * STEPS * _ROUNDS / best / 1e9
        self.ghz = max(self.ghz, clock)
        return clock

    def cycles(self, name: str, args: Sequence[object], count: float, workers: int = 1) -> float:
        """Cycles of each of the `count` things that one call does, by the clock just before and after."""
        before = self._tick(self.each / 4)
        best = fastest(self.modules[workers], name, tuple(args), self.each)
        return best * max(before, self._tick(self.each / 4)) * 1e9 / count

    def read(self, data: Array, workers: int) -> float:
        """Bytes a cycle that `workers` workers read of `data` together."""
        return read_rate(data, workers, 2 * self.each) / self._tick(self.each / 4)


def _kernels(known: Machine) -> list[PrimFunc]:
    """All kernels but those of `peak`."""
    made = [clock_kernel(), store_kernel(), barrier_kernel(), fma_kernel("chain", 1), fma_kernel("full")]
    made += [stream_kernel(name, term) for name, term in _TERMS.items()]
    if lanes() > 2:
        made += [shuffle_kernel(), fma_kernel("half", width=lanes() // 2)]
    if known.dot_per_cycle:
        made.append(dot_kernel())
    return [lower_intrinsics(func) for func in made]


def _arithmetic(meter: _Meter) -> dict[str, object]:
    """Multiply-adds and dot products a cycle, the latency of the first, shuffles."""
    out, count = np.zeros(lanes(), np.float32), ACCUMULATORS * STEPS * _ROUNDS
    found: dict[str, object] = {
        "fma_latency": round(meter.cycles("chain", (out, _ROUNDS, 0.5), STEPS * _ROUNDS)),
        "fma_per_cycle": _ports(meter.cycles("full", (out, _ROUNDS, 0.5), count)),
    }
    if lanes() > 2:
        found["half_fma_per_cycle"] = _ports(meter.cycles("half", (out, _ROUNDS, 0.5), count))
        vectors = np.zeros(stride(), np.float32)
        found["shuffle"] = _rounded(meter.cycles("shuffle", (vectors, _ROUNDS), stride() // lanes() * _ROUNDS))
    if meter.known.dot_per_cycle:
        words = np.zeros(lanes(), np.int32)
        found["dot_per_cycle"] = _ports(meter.cycles("dot_peak", (words, _ROUNDS, 1), count))
    return found


def _level_one(meter: _Meter) -> dict[str, object]:
    """The rates of the load and store ports from half of L1, and of the arithmetic on each vector there."""
    steps = max(1, meter.known.l1.size // 2 // (4 * stride()))
    room = aligned_empty(((steps + 3) * stride(),), np.dtype(np.float32))
    room[:] = 1.5
    data, out = room[: steps * stride()], np.zeros(lanes(), np.int32)
    found: dict[str, object] = {}
    vectors = steps * _PASSES * stride() // lanes()
    for name in _TERMS:
        each = meter.cycles(name, (data, out, steps, _PASSES), vectors)
        found[name] = _rounded(_LOADS[name] / each if name in _LOADS else each)
    found["stores"] = _rounded(1 / meter.cycles("store", (data, 1.5, steps, _PASSES), vectors))
    return found


def _memory(meter: _Meter, sizes: Mapping[str, int]) -> dict[str, object]:
    """Bytes a cycle from each level, what writing costs, what large pages bring."""
    found: dict[str, object] = {}
    small: dict[str, float] = {}
    memory = _filled(max(sizes["DRAM"], sizes["L2"] * meter.workers), huge=True)
    for level, name in (("L2", "read_l2"), ("L3", "read_l3"), ("DRAM", "read_memory")):
        one = small[level] = meter.read(_first(memory, sizes[level]), 1)
        many = _first(memory, sizes[level] * (meter.workers if level == "L2" else 1))
        together = meter.read(many, meter.workers) if meter.workers > 1 else one
        found[name] = Bandwidth(_rounded(one), _rounded(max(one, together)))
    factors = []
    for level in ("L2", "L3"):
        copied = copy_bandwidth(sizes[level], 1, 2 * meter.each) / meter.ghz
        factors.append(max(1.0, 2 * small[level] / copied - 1))
    found["write_factor"] = _rounded(sum(factors) / len(factors))
    between = (small["L3"] * small["DRAM"]) ** 0.5
    found["l3"] = dataclasses.replace(meter.known.l3, size=_l3_share(meter, memory, sizes["L3"], between))
    found["huge_page_gain"] = _rounded(_huge_page_gain(meter, _first(memory, sizes["L3"]), sizes["L3"]))
    return found


def _l3_share(meter: _Meter, memory: Array, size: int, least: float) -> int:
    """Bytes of the third-level cache that are ours: all, or as many as are read at `least` bytes a cycle.

    From `size` bytes, which are, by powers of two; other virtual machines may have the rest.
    """
    whole = meter.known.l3.size
    while 2 * size <= min(0.75 * whole, memory.nbytes / 2):
        if meter.read(_first(memory, 2 * size), 1) < least:
            return size
        size *= 2
    return whole


def _huge_page_gain(meter: _Meter, huge: Array, nbytes: int) -> float:
    """The speed of reading `huge` relative to the same bytes in small pages, at least 1; measured in turns."""
    plain = _filled(nbytes, huge=False)
    rates = [(meter.read(huge, 1), meter.read(plain, 1)) for _ in range(2)]
    return max(1.0, max(rate for rate, _ in rates) / max(rate for _, rate in rates))


def _filled(nbytes: int, huge: bool) -> Array:
    """Floats in memory of their own, in 2 MB pages or not, as far as the system honours the request."""
    alignment = 2 << 20
    mapping = mmap.mmap(-1, nbytes + alignment, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    advice = getattr(mmap, "MADV_HUGEPAGE" if huge else "MADV_NOHUGEPAGE", None)
    if advice is not None:
        with suppress(OSError):
            mapping.madvise(advice)
    raw: Array = np.frombuffer(mapping, np.uint8)
    start = -raw.ctypes.data % alignment
    data = _first(raw[start : start + max(nbytes, 4 * stride())].view(np.float32), nbytes)
    data[:] = 1.0
    return data


def _first(data: Array, nbytes: int) -> Array:
    """The first `nbytes` bytes, in whole steps of the kernels."""
    return data[: max(1, nbytes // (4 * stride())) * stride()]


def _ports(cycles: float) -> float:
    """Instructions a cycle: a whole number, or every second cycle one."""
    return max(0.5, float(round(1 / cycles)))


def _rounded(value: float) -> float:
    """Three significant digits: what is beyond them is noise."""
    return float(f"{value:.3g}")


MEASURED = (
    "ghz", "fma_per_cycle", "half_fma_per_cycle", "fma_latency", "dot_per_cycle", *_TERMS, "stores", "write_factor",
    "huge_page_gain", "barrier", "shuffle",
)  # fmt: skip
