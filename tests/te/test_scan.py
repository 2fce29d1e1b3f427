"""Scans: recurrences equal NumPy's under every schedule, and what does not fit is refused by name."""

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.backend.build import build
from tilewright.errors import ScheduleError


def _cumulative(rows, columns):
    X = te.placeholder((rows, columns), name="X")
    state = te.placeholder((rows, columns), name="state")
    first = te.compute((1, columns), lambda _, i: X[0, i], name="first")
    update = te.compute((rows, columns), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    return X, state, first, update, te.scan(first, update, state, inputs=[X], name="cumsum")


def _plain(s, first, update, out):
    pass


def _parallel(s, first, update, out):
    s[update].parallel(s[update].split(update.op.axis[1], factor=4)[0])
    s[first].vectorize(s[first].split(first.op.axis[1], factor=8)[1])


def _cached(s, first, update, out):
    cached = s.cache_write(update, "local")
    outer, inner = s[update].split(update.op.axis[1], factor=4)
    s[cached].compute_at(s[update], outer)
    s[update].unroll(inner)


@pytest.mark.parametrize("schedule", [_plain, _parallel, _cached])
def test_cumulative_sums_of_any_size(schedule):
    X, _, first, update, out = _cumulative(te.size_var("m"), te.size_var("n"))
    s = te.create_schedule(out)
    schedule(s, first, update, out)
    function = build(te.lower(s, [X, out]), threads=2)["main"]
    for size in ((1, 1), (2, 7), (20, 13)):
        x = np.random.default_rng(0).standard_normal(size).astype("float32")
        result = np.full_like(x, np.nan)
        function(x, result)
        np.testing.assert_allclose(result, np.cumsum(x, axis=0), rtol=1e-5, atol=1e-5)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _lstm(steps, batch, hidden, features):
    """Two states; the input product of all steps is outside of the scan, the recurrent one inside."""
    X = te.placeholder((steps, batch, features), name="X")
    Wx, Wh = (te.placeholder((4 * hidden, n), name=name) for n, name in ((features, "Wx"), (hidden, "Wh")))
    start = te.placeholder((1, batch, hidden), name="start")
    k, u = te.reduce_axis((0, features), "k"), te.reduce_axis((0, hidden), "u")
    shape = (steps + 1, batch, hidden)
    h_state, c_state = te.placeholder(shape, name="h_state"), te.placeholder(shape, name="c_state")
    outside = te.compute(
        (steps, batch, 4 * hidden), lambda t, b, j: te.sum(X[t, b, k] * Wx[j, k], axis=k), name="outside"
    )
    inside = te.compute(
        (steps + 1, batch, 4 * hidden), lambda t, b, j: te.sum(h_state[t - 1, b, u] * Wh[j, u], axis=u), name="inside"
    )
    gates = te.compute(inside.shape, lambda t, b, j: inside[t, b, j] + outside[t - 1, b, j], name="gates")

    def cell(t, b, j):
        i, f, g, o = (gates[t, b, j + n * hidden] for n in range(4))
        c = tir.sigmoid(f) * c_state[t - 1, b, j] + tir.sigmoid(i) * tir.tanh(g)
        return tir.sigmoid(o) * tir.tanh(c), c

    h, c = te.compute(shape, cell, name="cell")
    zero = te.compute((1, batch, hidden), lambda *i: tir.const(0.0), name="zero")
    outputs = te.scan([start, zero], [h, c], [h_state, c_state], inputs=[X], name="lstm")
    return (X, Wx, Wh, start), (outside, inside, gates, h), outputs


@pytest.mark.parametrize("scheduled", [False, True])
def test_an_lstm_of_two_states_equals_numpy(scheduled):
    steps, batch, hidden, features = 5, 3, 8, 6
    inputs, (outside, inside, gates, h), outputs = _lstm(steps, batch, hidden, features)
    s = te.create_schedule(outputs)
    if scheduled:
        s[gates].compute_inline()
        s[outside].parallel(outside.op.axis[0])
        s[inside].reorder(inside.op.reduce_axis[0], inside.op.axis[2])
        s[inside].vectorize(s[inside].split(inside.op.axis[2], factor=8)[1])
        s[inside].compute_at(s[h], h.op.axis[1])
        s[h].parallel(h.op.axis[1])
        s[h].vectorize(h.op.axis[2])
    rng = np.random.default_rng(1)
    x, wx, wh, start = (rng.uniform(-1, 1, [d.value for d in t.shape]).astype("float32") for t in inputs)
    results = [np.full((steps + 1, batch, hidden), np.nan, "float32") for _ in range(2)]
    build(te.lower(s, [*inputs, *outputs]), threads=2)["main"](x, wx, wh, start, *results)
    h, c = start[0], np.zeros((batch, hidden), "float32")
    for t in range(steps):
        i, f, g, o = np.split(x[t] @ wx.T + h @ wh.T, 4, axis=1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        np.testing.assert_allclose(results[0][t + 1], h, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(results[1][t + 1], c, rtol=1e-4, atol=1e-5)


def test_a_second_order_recurrence_and_a_first_step_given_by_the_caller():
    first = te.placeholder((2, 4), name="first")
    state = te.placeholder((10, 4), name="state")
    update = te.compute((10, 4), lambda t, i: state[t - 1, i] + state[t - 2, i], name="update")
    out = te.scan(first, update, state, name="fibonacci")
    assert te.create_schedule(out)[out].op.scan_axis.dom.min.value == 2
    result = np.zeros((10, 4), "float32")
    build(te.lower(te.create_schedule(out), [first, out]), threads=1)["main"](np.ones((2, 4), "float32"), result)
    np.testing.assert_array_equal(result[:, 0], [1, 1, 2, 3, 5, 8, 13, 21, 34, 55])


def test_states_that_do_not_fit_are_refused():
    X, state, first, update, _ = _cumulative(8, 4)
    with pytest.raises(TypeError, match=r"must be a te\.placeholder"):
        te.scan(first, update, update)
    with pytest.raises(TypeError, match=r"its update has \[8, 4\] and its init \[1, 5\]"):
        te.scan(te.compute((1, 5), lambda t, i: X[0, 0]), update, state)
    with pytest.raises(TypeError, match="2 init, 1 update and 1 state"):
        te.scan([first, first], [update], [state])
    with pytest.raises(TypeError, match="state state is float32, its init int32"):
        te.scan(te.compute((1, 4), lambda t, i: i), update, state)


def test_the_time_axis_stays_a_loop():
    *_, update, out = _cumulative(8, 4)
    s = te.create_schedule(out)
    axis = s[out].op.scan_axis
    for wrong in (s[out].split, s[out].parallel, s[out].vectorize):
        with pytest.raises(ScheduleError, match="steps of a scan run one after the other"):
            wrong(axis, *((2,) if wrong == s[out].split else ()))
    with pytest.raises(ScheduleError, match="an update of a scan, which attaches it"):
        s[update].compute_inline()


def test_what_exists_within_a_scan_only_cannot_be_an_argument_or_output():
    X, state, _, update, out = _cumulative(8, 4)
    with pytest.raises(ScheduleError, match="state exists within the scan cumsum only"):
        te.lower(te.create_schedule(out), [X, state, out])
    with pytest.raises(ScheduleError, match="cannot be an output"):
        te.lower(te.create_schedule([out, update]), [X, out, update])
