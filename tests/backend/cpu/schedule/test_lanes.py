"""Accumulators and lanes of a reduction are those of the processor."""

from __future__ import annotations

import pytest

from tilewright import te
from tilewright.backend.cpu.schedule.lanes import accumulators, lanes_of
from tilewright.target import Target


@pytest.mark.parametrize(
    ("cpu", "count", "lanes"), [("skylake-avx512", 4, [16, 16, 8]), ("haswell", 4, [8, 8, 4]), ("x86-64", 4, [4, 4, 2])]
)
def test_lanes_and_accumulators(cpu: str, count: int, lanes: list[int]) -> None:
    target = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    assert accumulators(target) == count
    assert [lanes_of(te.placeholder((4,), dtype), target) for dtype in ("int8", "float32", "float64")] == lanes


def test_slow_additions_need_more_accumulators() -> None:
    assert accumulators(Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53")) == 8
