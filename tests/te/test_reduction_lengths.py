"""Reductions whose length depends on the axes of the result, or on values: triangular sums, sparse rows."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from tilewright import te
from tilewright.backend.build import build
from tilewright.errors import ScheduleError

ROWS, TERMS = 12, 40


def _triangle() -> tuple[te.Tensor, te.Tensor]:
    """The sums of the first i + 1 elements of row i."""
    a = te.placeholder((ROWS, ROWS), name="a")

    def row(i):
        k = te.reduce_axis((0, i + 1), name="k")
        return te.sum(a[i, k], axis=k)

    return a, te.compute((ROWS,), row, name="sums")


def _split_rows(s: te.Schedule, out: te.Tensor) -> None:
    s[out].split(s[out].op.axis[0], factor=5)


def _split_terms(s: te.Schedule, out: te.Tensor) -> None:
    s[out].split(s[out].op.reduce_axis[0], factor=4)


def _parallel(s: te.Schedule, out: te.Tensor) -> None:
    outer, _ = s[out].split(s[out].op.axis[0], factor=3)
    s[out].parallel(outer)


@pytest.mark.parametrize("change", [lambda s, out: None, _split_rows, _split_terms, _parallel])
def test_lengths_by_the_axes(change: Callable[[te.Schedule, te.Tensor], None]) -> None:
    a, out = _triangle()
    s = te.create_schedule(out.op)
    change(s, out)
    x, y = np.random.default_rng(0).random((ROWS, ROWS), np.float32), np.zeros(ROWS, np.float32)
    build(te.lower(s, [a, out]), threads=1)["main"](x, y)
    np.testing.assert_allclose(y, np.tril(x).sum(1), rtol=1e-5)


def _sparse_rows(computed: bool = False) -> tuple[list[te.Tensor], te.Tensor, te.Tensor]:
    values, starts = te.placeholder((TERMS,), name="values"), te.placeholder((ROWS + 1,), "int32", "starts")
    used = te.compute((ROWS + 1,), lambda i: starts[i] // 2, name="halves") if computed else starts

    def row(i):
        k = te.reduce_axis((used[i], used[i + 1]), name="k")
        return te.sum(values[k], axis=k)

    return [values, starts], used, te.compute((ROWS,), row, name="sums")


def _sums_of_rows(schedule: te.Schedule, inputs: list[te.Tensor], out: te.Tensor, shift: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.random(TERMS, np.float32)
    ends = np.sort(rng.integers(0, TERMS + 1, ROWS + 1)).astype(np.int32)
    y = np.zeros(ROWS, np.float32)
    build(te.lower(schedule, [*inputs, out]), threads=1)["main"](x, ends << shift, y)
    np.testing.assert_allclose(y, [x[a:b].sum() for a, b in pairwise(ends)], rtol=1e-5)


@pytest.mark.parametrize("change", [lambda s, out: None, _split_rows, _split_terms, _parallel])
def test_lengths_by_values(change: Callable[[te.Schedule, te.Tensor], None]) -> None:
    inputs, _, out = _sparse_rows()
    s = te.create_schedule(out.op)
    change(s, out)
    _sums_of_rows(s, inputs, out, 0)


def test_lengths_by_values_that_are_computed() -> None:
    inputs, halves, out = _sparse_rows(computed=True)
    s = te.create_schedule(out.op)
    s[halves].compute_root()
    _sums_of_rows(s, inputs, out, 1)


def test_what_lengths_read_stays_in_memory() -> None:
    inputs, halves, out = _sparse_rows(computed=True)
    s = te.create_schedule(out.op)
    s[halves].compute_inline()
    with pytest.raises(ScheduleError, match="compute_inline of halves: the length of a reduction of sums reads it"):
        te.lower(s, [*inputs, out])
