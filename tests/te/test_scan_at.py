"""Scans computed inside loops of their readers, and inside each other."""

from __future__ import annotations

import numpy as np
import pytest

from tests.te.test_scan import _lstm
from tilewright import te
from tilewright.backend.build import build
from tilewright.tir.stmt import Allocate
from tilewright.tir.transform.statements import walk


def shapes(func):
    return {s.buffer.name: s.buffer.constant_shape() for s in walk(func.body) if isinstance(s, Allocate)}


def run(func, *arrays):
    build(func, threads=2)["main"](*arrays)


def recurrence(steps, batch, hidden):
    """h[t] = (h[t - 1] W) / 8 + x[t], then a sum over time: (arguments, stages)."""
    x, w = te.placeholder((steps, batch, hidden), name="X"), te.placeholder((hidden, hidden), name="W")
    state = te.placeholder((steps, batch, hidden), name="state")
    first = te.compute((1, batch, hidden), lambda _, b, j: x[0, b, j] * 2.0, name="first")
    k = te.reduce_axis((0, hidden), name="k")
    inside = te.compute((steps, batch, hidden), lambda t, b, j: te.sum(state[t - 1, b, k] * w[k, j], axis=k), name="m")
    update = te.compute((steps, batch, hidden), lambda t, b, j: inside[t, b, j] / 8.0 + x[t, b, j], name="update")
    h = te.scan(first, update, state, inputs=[x], name="h")
    r = te.reduce_axis((0, steps), name="r")
    total = te.compute((batch, hidden), lambda b, j: te.sum(h[r, b, j], axis=r), name="total")
    return (x, w, total), (first, inside, update, h)


def by_numpy(x, w):
    h = [x[0] * 2]
    for t in range(1, len(x)):
        h.append(h[-1] @ w / 8 + x[t])
    return np.sum(h, axis=0)


@pytest.mark.parametrize("factor", [1, 3, 4, 32])
def test_each_worker_runs_the_steps_of_its_rows(factor):
    (x, w, total), (_, inside, update, h) = recurrence(5, 10, 6)
    s = te.create_schedule(total)
    outer, _ = s[total].split(total.op.axis[0], factor=factor)
    s[total].parallel(outer)
    s[h].compute_at(s[total], outer)
    s[inside].compute_at(s[update], update.op.axis[1])
    func = te.schedule_to_tir(s, [x, w, total])
    assert shapes(func) == {"h": (5, min(factor, 10), 6), "m": (1, 1, 6)}  # the columns mix, the rows do not
    rng = np.random.default_rng(0)
    a, b, c = rng.random((5, 10, 6)).astype("f4"), rng.random((6, 6)).astype("f4"), np.zeros((10, 6), "f4")
    run(te.lower(s, [x, w, total]), a, b, c)
    np.testing.assert_allclose(c, by_numpy(a, b), rtol=1e-5)
    c[:] = 0
    run(te.lower(s, [x, w, total], check_bounds=True), a, b, c)
    np.testing.assert_allclose(c, by_numpy(a, b), rtol=1e-5)


def test_a_scan_inside_a_loop_takes_any_batch():
    (x, w, total), (_, _, _, h) = recurrence(5, te.size_var("n"), 6)
    s = te.create_schedule(total)
    outer, _ = s[total].split(total.op.axis[0], factor=4)
    s[h].compute_at(s[total], outer)
    function = build(te.lower(s, [x, w, total]))["main"]
    for rows in (1, 4, 7):
        rng = np.random.default_rng(rows)
        a, b, c = rng.random((5, rows, 6)).astype("f4"), rng.random((6, 6)).astype("f4"), np.zeros((rows, 6), "f4")
        function(a, b, c)
        np.testing.assert_allclose(c, by_numpy(a, b), rtol=1e-5)


def test_first_steps_from_elsewhere_are_copied_in_part():
    (x, w, total), (first, *_, h) = recurrence(5, 10, 6)
    both = te.compute((10, 6), lambda b, j: total[b, j] + first[0, b, j], name="both")
    s = te.create_schedule(both)
    s[total].compute_at(s[both], both.op.axis[0])
    s[h].compute_at(s[both], both.op.axis[0])
    assert shapes(te.schedule_to_tir(s, [x, w, both]))["h"] == (5, 1, 6)
    rng = np.random.default_rng(0)
    a, b, c = rng.random((5, 10, 6)).astype("f4"), rng.random((6, 6)).astype("f4"), np.zeros((10, 6), "f4")
    run(te.lower(s, [x, w, both]), a, b, c)
    np.testing.assert_allclose(c, by_numpy(a, b) + a[0] * 2, rtol=1e-5)


def test_states_go_together():
    """Rows of both states of an LSTM cell, whose hidden units mix."""
    (X, Wx, Wh, start), _, (h, c) = _lstm(4, 6, 3, 2)
    last = te.compute((6, 3), lambda b, j: h[4, b, j] - c[4, b, j], name="last")
    arrays = [np.random.default_rng(n).standard_normal([int(d.value) for d in t.shape]).astype("f4")
              for n, t in enumerate((X, Wx, Wh, start))]  # fmt: skip
    results = []
    for inside in (False, True):
        s = te.create_schedule(last)
        if inside:
            outer, _ = s[last].split(last.op.axis[0], factor=4)
            s[h].compute_at(s[last], outer)
        func = te.lower(s, [X, Wx, Wh, start, last])
        out = np.zeros((6, 3), "f4")
        run(func, *arrays, out)
        results.append(out)
    np.testing.assert_array_equal(*results)
    found = shapes(te.schedule_to_tir(s, [X, Wx, Wh, start, last]))
    assert found["lstm.v0"] == found["lstm.v1"] == (5, 4, 3)


def test_dimensions_that_mix_are_computed_whole():
    x = te.placeholder((4, 8), name="X")
    state = te.placeholder((4, 8), name="state")
    first = te.compute((1, 8), lambda _, i: x[0, i], name="first")
    update = te.compute((4, 8), lambda t, i: state[t - 1, (i + 1) % 8] + x[t, i], name="update")
    turned = te.scan(first, update, state, inputs=[x], name="turned")
    last = te.compute((8,), lambda i: turned[3, i] * 2.0, name="last")
    s = te.create_schedule(last)
    s[turned].compute_at(s[last], last.op.axis[0])
    assert shapes(te.schedule_to_tir(s, [x, last])) == {"turned": (4, 8)}
    a, b = np.random.default_rng(0).random((4, 8)).astype("f4"), np.zeros(8, "f4")
    run(te.lower(s, [x, last]), a, b)
    h = a[0]
    for t in range(1, 4):
        h = np.roll(h, -1) + a[t]
    np.testing.assert_allclose(b, h * 2, rtol=1e-6)


@pytest.mark.parametrize("scheduled", [False, True])
def test_a_scan_within_a_scan(scheduled):
    """In each outer step t: g = h[t - 1], three times g = g / 2 + x[t]; h[t] = g."""
    steps, inner_steps, n = 5, 4, 6
    x = te.placeholder((steps, n), name="X")
    outer_state = te.placeholder((steps, n), name="outer_state")
    shape = (inner_steps, steps, n)
    inner_state = te.placeholder(shape, name="inner_state")
    inner_first = te.compute((1, steps, n), lambda _, t, i: outer_state[t - 1, i], name="inner_first")
    inner_update = te.compute(shape, lambda k, t, i: inner_state[k - 1, t, i] / 2.0 + x[t, i], name="inner_update")
    inner = te.scan(inner_first, inner_update, inner_state, name="inner")
    first = te.compute((1, n), lambda _, i: x[0, i], name="first")
    update = te.compute((steps, n), lambda t, i: inner[inner_steps - 1, t, i], name="update")
    h = te.scan(first, update, outer_state, inputs=[x], name="h")
    s = te.create_schedule(h)
    if scheduled:
        s[inner].compute_at(s[update], update.op.axis[1])
    func = te.schedule_to_tir(s, [x, h])
    assert shapes(func) == {"inner": (inner_steps, 1, 1 if scheduled else n)}
    a, out = np.random.default_rng(0).random((steps, n)).astype("f4"), np.zeros((steps, n), "f4")
    run(te.lower(s, [x, h], check_bounds=True), a, out)
    expected = [a[0]]
    for t in range(1, steps):
        g = expected[-1]
        for _ in range(inner_steps - 1):
            g = g / 2 + a[t]
        expected.append(g)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    run(te.lower(s, [x, h]), a, out)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
