"""Parts that templates share take their sizes from the machine of the target."""

from __future__ import annotations

import pytest

from tilewright import te
from tilewright.backend.cpu.schedule.common import line_elements, parallel_outer, power_of_two_lanes, vector_lanes
from tilewright.target import Target
from tilewright.te.lower import lower_stages
from tilewright.tir.stmt import For, ForKind
from tilewright.tir.visitor import collect

WIDE = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
NARROW = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1")
LONG_LINES = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=apple-m1")


@pytest.mark.parametrize(("extent", "lanes"), [(5, 5), (16, 16), (48, 16), (24, 8), (100, 16)])
def test_lanes_of_a_pass_are_a_line_or_half_of_one(extent: int, lanes: int) -> None:
    assert vector_lanes(extent, WIDE) == vector_lanes(extent, NARROW) == lanes


def test_lines_are_the_processors() -> None:
    assert [line_elements(target) for target in (WIDE, NARROW, LONG_LINES)] == [16, 16, 32]
    assert vector_lanes(64, LONG_LINES) == 32


def test_vectors_are_the_processors() -> None:
    assert [power_of_two_lanes(96, target) for target in (WIDE, NARROW)] == [16, 4]
    assert power_of_two_lanes(24, WIDE) == 8


def test_the_grain_of_parallel_work_is_that_of_the_machine() -> None:
    """Twice the elements of the grain are shared out, half of them are not; eight terms weigh as one element."""
    grain = WIDE.machine.parallel_elements
    assert _is_parallel(2 * grain, WIDE) and not _is_parallel(grain // 2, WIDE)
    assert _is_parallel(grain // 2, WIDE, terms=16)
    assert NARROW.machine.parallel_elements < grain
    assert _is_parallel(NARROW.machine.parallel_elements + 64, NARROW)


def _is_parallel(elements: int, target: Target, terms: int = 0) -> bool:
    data = te.placeholder((elements // 32, 32))
    out = te.compute(data.shape, lambda i, j: data[i, j] + 1.0)
    s = te.create_schedule(out.op)
    parallel_outer(s, out, [s[out].op.axis[0]], target, terms)
    _, func = next(lower_stages(s, [data, out]))
    return any(loop.kind is ForKind.PARALLEL for loop in collect(func.body, For))
