"""Computations of symbolic size under random schedules equal those of constant size, for several sizes."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.te.python_backend import evaluate, run
from tests.te.random_schedule import random_schedule, shape_of
from tilewright import te, tir


def _stencil(t):
    return te.compute((t.shape[0], t.shape[1] - 2), lambda i, j: t[i, j] + t[i, j + 2] * 3, name="stencil")


def _strided(t):
    size = (t.shape[1] - 1) // 2 + 1
    return te.compute((t.shape[0], size), lambda i, j: t[i, j * 2] + 1, name="strided")


def _transpose(t):
    return te.compute((t.shape[1], t.shape[0]), lambda i, j: t[j, i] - i, name="transpose")


def _reverse(t):
    last = t.shape[1] - 1
    return te.compute(t.shape, lambda i, j: t[i, last - j] * 2, name="reverse")


def _pad(t):
    rows, columns = t.shape
    return te.compute(
        (rows + 2, columns),
        lambda i, j: tir.if_then_else(tir.all(i >= 1, i < rows + 1), t[i - 1, j], tir.const(4)),
        name="pad",
    )


def _softmax_sum(t):
    k = te.reduce_axis((0, t.shape[1]), "k")
    top = te.compute((t.shape[0],), lambda i: te.max(t[i, k], axis=k), name="top")
    return te.compute(t.shape, lambda i, j: t[i, j] - top[i], name="minus_top")


def _product(t):
    k = te.reduce_axis((0, t.shape[1]), "k")
    return te.compute((t.shape[0], t.shape[0]), lambda i, j: te.sum(t[i, k] * t[j, k], axis=k), name="product")


STEPS = [_stencil, _strided, _transpose, _reverse, _pad, _softmax_sum, _product]


def _build(rows, columns, steps):
    source = te.placeholder((rows, columns), "int32", name="A")
    tensor = source
    for step in steps:
        tensor = step(tensor)
    return source, tensor


@settings(max_examples=80, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.data())
def test_symbolic_sizes_equal_constant_ones(data):
    steps = data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=3))
    m, n = te.size_var("m"), te.size_var("n")
    source, output = _build(m, n, steps)
    schedule = random_schedule(data.draw, source, output, marks=False)
    func = te.schedule_to_tir(schedule, [source, output, m, n])
    for rows, columns in ((7, 9), (8, 8), (9, 12)):
        constant, want = _build(rows, columns, steps)
        values = np.random.default_rng(0).integers(-3, 4, (rows, columns)).astype("int32")
        result = np.full(shape_of(want), 55, "int32")
        run(func, values, result, rows, columns)
        np.testing.assert_array_equal(result, evaluate([want], {constant: values})[0])
