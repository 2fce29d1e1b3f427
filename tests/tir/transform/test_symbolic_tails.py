"""Tails of symbolic extents: tiles that overlap, loops that end at their guards, code for border tiles."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.te.schedule_to_tir import schedule_to_tir
from tilewright.tir.evaluate import interpret
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.shift_last_tile import shift_last_tile
from tilewright.tir.transform.shrink_loops import shrink_loops
from tilewright.tir.transform.simplify import simplify

N = te.size_var("n")


def tiled(unroll: bool, border: bool = False) -> PrimFunc:
    """c[i] = a[i] * 2, or the sum of a[i] and its neighbours, in tiles of 8 with an accumulator each."""
    a = te.placeholder((N,), "float32", "a")
    k = te.reduce_axis((0, 3), "k")
    if border:
        c = te.compute(
            (N,),
            lambda i: te.sum(
                a[i + k - 1], axis=k, where=tir.all(tir.likely(i + k - 1 >= 0), tir.likely(i + k - 1 < N))
            ),
            name="c",
        )
    else:
        c = te.compute((N,), lambda i: a[i] * 2.0, name="c")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local") if border else None
    outer, inner = s[c].split(c.op.axis[0], factor=8)
    if local is not None:
        s[local].compute_at(s[c], outer)
        s[local].reorder(s[local].op.reduce_axis[0], s[local].op.axis[0])
        s[local].unroll(s[local].op.axis[0])
    if unroll:
        s[c].unroll(inner)
    return simplify(schedule_to_tir(s, [a, c, N], "main"))


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 13, 16, 24, 29])
@pytest.mark.parametrize("border", [False, True])
def test_shifted_tiles_compute_the_same(n: int, border: bool) -> None:
    a = np.arange(1, n + 1, dtype=np.float32)
    got = np.full(n, -7, np.float32)
    interpret(shift_last_tile(tiled(True, border)), a, got, n)
    np.testing.assert_array_equal(got, _sums(a) if border else a * 2)


def _sums(a: np.ndarray) -> np.ndarray:
    padded = np.pad(a, 1)
    return padded[:-2] + padded[1:-1] + padded[2:]


def test_before_and_after_shifting() -> None:
    before = tiled(True)
    assert "likely(i_outer * 8 + i_inner < n)" in str(before)
    text = str(shift_last_tile(before))
    assert "if n >= 8:" in text and "start = min(i_outer * 8, n - 8)" in text and "likely" not in text
    assert "c[start + i_inner] = a[start + i_inner] * 2.0" in text
    assert "min(i_inner, n - 1)" in text  # too short for a tile
    assert "if n * 4 <= 8:" in text and "c[position] = a[position] * 2.0" in text  # as many positions as it has


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 9])
def test_a_few_rows_of_a_product_are_computed_one_by_one(n: int) -> None:
    a, b = te.placeholder((N, 3), "float32", "a"), te.placeholder((3, 5), "float32", "b")
    k = te.reduce_axis((0, 3), "k")
    c = te.compute((N, 5), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    tiles, row = s[c].split(c.op.axis[0], factor=8)
    s[c].unroll(row)
    s[local].compute_at(s[c], tiles)
    s[local].reorder(s[local].op.reduce_axis[0], *s[local].op.axis)
    s[local].unroll(s[local].op.axis[0])
    func = shift_last_tile(simplify(schedule_to_tir(s, [a, b, c, N], "main")))
    assert "for position in range(n)" in str(func)
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((n, 3)).astype("float32"), rng.standard_normal((3, 5)).astype("float32")
    got = np.full((n, 5), np.nan, np.float32)
    interpret(func, left, right, got, n)
    np.testing.assert_allclose(got, left @ right, rtol=1e-5)


def test_border_tiles_have_code_of_their_own() -> None:
    text = str(shift_last_tile(tiled(True, border=True)))
    assert text.count("for k in") >= 4  # inside, first, last, and the rest


def padded() -> PrimFunc:
    """A vector with a zero before and two behind it, written in vectors of 8."""
    a = te.placeholder((N,), "float32", "a")
    c = te.compute((N + 3,), lambda i: tir.if_then_else(tir.all(i >= 1, i < N + 1), a[i - 1], tir.const(0.0)), name="c")
    s = te.create_schedule(c.op)
    _, inner = s[c].split(c.op.axis[0], factor=8)
    s[c].vectorize(inner)
    return simplify(schedule_to_tir(s, [a, c, N], "main"))


@pytest.mark.parametrize("n", [1, 4, 5, 6, 8, 13, 14, 30])
def test_padding_is_written_without_tests_inside(n: int) -> None:
    after = shift_last_tile(padded())
    inside = next(line for line in str(after).splitlines() if "c[start + i_inner]" in line)
    assert "if_then_else" not in inside
    a, got = np.arange(1, n + 1, dtype=np.float32), np.full(n + 3, -7, np.float32)
    interpret(after, a, got, n)
    np.testing.assert_array_equal(got, np.pad(a, (1, 2)))


def test_a_reduction_is_not_shifted() -> None:
    a = te.placeholder((N,), "float32", "a")
    k = te.reduce_axis((0, N), "k")
    c = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="c")
    s = te.create_schedule(c.op)
    s[c].split(c.op.reduce_axis[0], factor=8)
    before = simplify(schedule_to_tir(s, [a, c, N], "main"))
    assert shift_last_tile(before).body is before.body or "start" not in str(shift_last_tile(before))


@pytest.mark.parametrize("n", [1, 7, 8, 19])
def test_loops_end_at_their_guards(n: int) -> None:
    before = tiled(False)
    after = shrink_loops(before)
    assert "likely" in str(before) and "likely" not in str(after)
    assert "range(min(8, n - i_outer * 8))" in str(after)
    a, got = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    interpret(after, a, got, n)
    np.testing.assert_array_equal(got, a * 2)
