"""Figures of GPUs against the peaks that their vendor publishes."""

from __future__ import annotations

import pytest

from tilewright.backend.gpu.schedule.machine import TABLE, machine_of
from tilewright.target import DeviceTarget, Target

#: TFLOP/s of float32 and of dense float16 on tensor cores with sums in float32, as published.
PUBLISHED = {"a100": (19.5, 312), "h100": (66.9, 989), "h200": (66.9, 989), "rtx-4090": (82.6, 165)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_peaks_are_the_published_ones(name: str) -> None:
    """Within 12 %: the clock under load is not the one of the data sheet."""
    float32, float16 = PUBLISHED[name]
    assert TABLE[name].peak_float32 == pytest.approx(float32 * 1e12, rel=0.12)
    assert TABLE[name].peak_float16 == pytest.approx(float16 * 1e12, rel=0.12)


@pytest.mark.parametrize(
    ("spec", "name"),
    [("cuda -arch=sm_80", "a100"), ("cuda -arch=sm_90a", "h100"), ("cuda -arch=sm_89", "rtx-4090"),
     ("cuda -arch=sm_61", "generic"), ("opencl", "generic"), ("webgpu", "browser")],
)  # fmt: skip
def test_an_architecture_has_a_machine(spec: str, name: str) -> None:
    """And a device of another kind the generic one."""
    target = Target(spec)
    assert isinstance(target, DeviceTarget)
    assert machine_of(target).name == name
