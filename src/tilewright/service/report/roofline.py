"""Rooflines of targets by the figures of cost models: peaks of arithmetic, and rates of each level of memory."""

from __future__ import annotations

from typing import Any

from tilewright.backend.gpu.schedule.machine import machine_of as gpu_of
from tilewright.target import DeviceTarget, Target

_GIGA = 1e9


def machine_facts(target: Target) -> dict[str, Any]:
    """The name and figures of the target's machine; `peak` in operations a second, bytes a second in `levels`.

    Processors' figures are those of one core. A target whose machine has no figures has only its name.
    """
    if isinstance(target, DeviceTarget):
        gpu = gpu_of(target)
        levels = [("L2", gpu.l2_bytes), ("DRAM", gpu.dram_bytes)]
        return {"name": gpu.name, "cores": gpu.multiprocessors, "peak": gpu.peak_float32, "levels": _rates(levels)}
    if not target.is_processor:
        return {"name": str(target), "cores": 1, "peak": 0.0, "levels": []}
    machine, clock = target.machine, target.machine.ghz * _GIGA
    rates = (("L2", machine.read_l2), ("L3", machine.read_l3), ("DRAM", machine.read_memory))
    return {
        "name": target.cpu,
        "cores": target.cores,
        "vector_bits": machine.vector_bits,
        "peak": machine.peak_gflops * _GIGA,
        "levels": _rates([(name, rate.one * clock) for name, rate in rates]),
    }


def _rates(levels: list[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"name": name, "bytes_per_second": rate} for name, rate in levels]


def point(flops: int, nbytes: int, seconds: float) -> dict[str, float] | None:
    """The position of a kernel in a roofline; None for one that counts no operations, bytes or time."""
    if not (flops and nbytes and seconds):
        return None
    return {"intensity": flops / nbytes, "flops_per_second": flops / seconds}
