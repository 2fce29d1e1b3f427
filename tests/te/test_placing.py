"""Stages computed at loops that their readers are still making, as arguments too, and in nested groups."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.errors import ScheduleError

A = te.placeholder((10, 12), name="A")
B = te.compute(A.shape, lambda i, j: A[i, j] + 1, name="B")
C = te.compute((9, 12), lambda i, j: B[i, j] * B[i + 1, j], name="C")
D = te.compute(C.shape, lambda i, j: C[i, j] - 2, name="D")
_X = np.random.default_rng(0).integers(-9, 9, (10, 12)).astype("float32")
_B = _X + 1
_C = _B[:-1] * _B[1:]


def _run(s: te.Schedule, *made: te.Tensor) -> list[np.ndarray]:
    """The values of `made` after a run on `_X`, every access checked."""
    results = [np.full([int(d) for d in t.shape], -7, "float32") for t in made]
    tw.build(te.lower(s, [A, *made], check_bounds=True))["main"](_X, *results)
    again = [np.full_like(result, -7) for result in results]
    tw.build(te.lower(s, [A, *made]))["main"](_X, *again)
    for one, two in zip(results, again, strict=True):
        np.testing.assert_array_equal(one, two)
    return again


@pytest.mark.parametrize("factor", [2, 4, 5])
def test_loops_are_split_and_fused_after_stages_were_placed_in_them(factor: int) -> None:
    s = te.create_schedule(D)
    s[B].compute_at(s[D], D.op.axis[0])
    s[C].compute_at(s[D], D.op.axis[1])
    outer, inner = s[D].split(D.op.axis[0], factor=factor)
    assert s[B].attach_ivar is inner
    fused = s[D].fuse(inner, D.op.axis[1])
    assert s[B].attach_ivar is s[C].attach_ivar is fused
    assert s[D].leaf_iter_vars == [outer, fused]
    np.testing.assert_array_equal(_run(s, D)[0], _C - 2)


@pytest.mark.parametrize("factor", [3, 4])
def test_arguments_may_be_computed_inside_a_loop(factor: int) -> None:
    s = te.create_schedule(D)
    outer, _ = s[D].split(D.op.axis[0], factor=factor)
    s[C].compute_at(s[D], outer)
    s[B].compute_at(s[C], C.op.axis[0])
    b, c, d = _run(s, B, C, D)
    for made, expected in ((b, _B), (c, _C), (d, _C - 2)):
        np.testing.assert_array_equal(made, expected)


def test_arguments_may_be_inlined() -> None:
    s = te.create_schedule(D)
    s[B].compute_inline()
    s[C].compute_inline()
    c, d = _run(s, C, D)
    np.testing.assert_array_equal(c, _C)
    np.testing.assert_array_equal(d, _C - 2)


def test_the_fusion_of_no_loops() -> None:
    x = te.placeholder((), name="x")
    y = te.compute((), lambda: x() + 1, name="y")
    s = te.create_schedule(y)
    one = s[y].fuse()
    assert s[y].leaf_iter_vars == [one]
    outer, _ = s[y].split(one, factor=4)
    s[y].parallel(outer)
    value, result = np.full((), 3, "float32"), np.zeros((), "float32")
    tw.build(te.lower(s, [x, y]))["main"](value, result)
    assert result == 4
    again = te.load_schedule(y, s.to_json())
    assert [iv.name for iv in again[y].leaf_iter_vars] == [iv.name for iv in s[y].leaf_iter_vars]
    s = te.create_schedule(D)
    s[D].fuse(s[D].fuse(), D.op.axis[0])
    s[C].compute_at(s[D], s[D].leaf_iter_vars[0])
    np.testing.assert_array_equal(_run(s, D)[0], _C - 2)


def test_groups_in_groups() -> None:
    E = te.compute(D.shape, lambda i, j: D[i, j] * 3, name="E")
    for first_is_inner in (True, False):
        s = te.create_schedule(E)
        if first_is_inner:
            inner, outer = s.create_group([C], [A]), s.create_group([D], [A])
        else:
            outer, inner = s.create_group([D], [A]), s.create_group([C], [A])
        assert inner.group is outer and s[B].group is inner and s[D].group is outer
        assert list(s[C].groups) == [inner, outer]
        outer.compute_at(s[E], E.op.axis[0])
        inner.compute_at(s[D], D.op.axis[1])
        np.testing.assert_array_equal(_run(s, E)[0], (_C - 2) * 3)
    with pytest.raises(ScheduleError, match="is in another group already, with stages beyond"):
        s.create_group([E], [C])


def test_a_reducer_written_in_terms_of_an_axis() -> None:
    x = te.placeholder((6,), name="x")

    def longest(n: object) -> object:
        k = te.reduce_axis((0, n), name="k")
        at_least = te.comm_reducer(
            lambda a, b: tw.tir.maximum(a + b, n.astype("float32")),
            lambda t: tw.tir.select(n > 1, tw.tir.const(0, t), n.astype(t)),
        )
        return at_least(x[k], axis=k)

    y = te.compute((6,), longest, name="y")
    data = np.arange(6, dtype="float32")
    expected = []
    for n in range(6):
        value = 0.0 if n > 1 else float(n)
        for k in range(n):
            value = max(value + data[k], n)
        expected.append(value)
    for cached in (False, True):
        s = te.create_schedule(y)
        if cached:
            s.cache_write(y, "local")
        result = np.zeros(6, "float32")
        tw.build(te.lower(s, [x, y]))["main"](data, result)
        np.testing.assert_array_equal(result, expected)
