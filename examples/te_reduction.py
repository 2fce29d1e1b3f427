"""Reductions: sums in any order, reducers of one's own, and one reduction shared by several workers (rfactor).

python examples/te_reduction.py [--size 4096]
"""

from __future__ import annotations

import argparse

import numpy as np

from tilewright import build, te, tir


def row_sums(size: int) -> None:
    """A sum for each row, eight at a time: the reduction axis is split and vectorized like any other."""
    a = te.placeholder((64, size), name="A")
    k = te.reduce_axis((0, size), "k")
    b = te.compute((64,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b)
    _, lane = s[b].split(k, factor=8)
    s[b].vectorize(lane)
    s[b].parallel(b.op.axis[0])
    values = np.random.default_rng(0).standard_normal((64, size)).astype("float32")
    sums = np.zeros(64, "float32")
    build(te.lower(s, [a, b]))["main"](values, sums)
    np.testing.assert_allclose(sums, values.sum(axis=1), rtol=1e-3, atol=1e-3)
    print("row sums agree with NumPy")


def one_sum_for_all_workers(size: int) -> None:
    """A single sum has no data axis to share out. rfactor makes partial sums, which have one."""
    a = te.placeholder((size,), name="A")
    k = te.reduce_axis((0, size), "k")
    b = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="B")
    s = te.create_schedule(b)
    _, part = s[b].split(k, factor=16)
    partial = s.rfactor(b, part)
    s[partial].parallel(partial.op.axis[0])
    print(te.schedule_to_tir(s, [a, b]))
    values = np.random.default_rng(1).standard_normal(size).astype("float32")
    total = np.zeros(1, "float32")
    build(te.lower(s, [a, b]))["main"](values, total)
    np.testing.assert_allclose(total[0], values.sum(dtype="float64"), rtol=1e-3, atol=1e-3)
    print("16 partial sums, added up, agree with NumPy")


def largest_and_where(size: int) -> None:
    """A reducer of pairs: the index and the value of the largest element. The first of equal ones wins."""

    def larger(x: tuple[tir.Expr, ...], y: tuple[tir.Expr, ...]) -> tuple[tir.Expr, ...]:
        second = tir.any(y[1] > x[1], tir.all(tir.eq(y[1], x[1]), y[0] < x[0]))
        return tir.select(second, y[0], x[0]), tir.select(second, y[1], x[1])

    def start(index: str, value: str) -> tuple[tir.Expr, ...]:
        return tir.const(2**31 - 1, index), tir.const(float("-inf"), value)

    argmax = te.comm_reducer(larger, start, name="argmax")
    a = te.placeholder((32, size), name="A")
    k = te.reduce_axis((0, size), "k")
    where, value = te.compute((32,), lambda i: argmax((k.var, a[i, k]), axis=k), name="largest")
    s = te.create_schedule(where)
    _, part = s[where].split(k, factor=4)
    s.rfactor(where, part)
    values = np.random.default_rng(2).integers(0, 50, (32, size)).astype("float32")
    indices, largest = np.zeros(32, "int32"), np.zeros(32, "float32")
    build(te.lower(s, [a, where, value]))["main"](values, indices, largest)
    np.testing.assert_array_equal(indices, values.argmax(axis=1))
    np.testing.assert_array_equal(largest, values.max(axis=1))
    print("argmax agrees with NumPy")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4096)
    chosen = parser.parse_args().size
    row_sums(chosen)
    one_sum_for_all_workers(chosen)
    largest_and_where(chosen)
