"""Reductions that the threads of a block share."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.source.programs import axes, require_target
from tests.codegen.source.test_device import TARGETS, random
from tilewright import te, tir
from tilewright.backend import build
from tilewright.codegen.build_device import emit_device
from tilewright.errors import EnvironmentError_, ScheduleError, TargetError
from tilewright.runtime.gpu.nvrtc import compile_cubin
from tilewright.target import Target


def row_sums(n, k, threads=32, target=None):
    a = te.placeholder((n, k), name="A")
    r = te.reduce_axis((0, k), name="k")
    b = te.compute((n,), lambda i: te.sum(a(i, r), axis=r), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.reduce_axis[0], factor=threads)
    block, row = s[b].split(b.op.axis[0], factor=4)
    for loop, thread in zip((block, row, inner), axes("blockIdx.x", "threadIdx.y", "threadIdx.x")):
        s[b].bind(loop, thread)
    return te.lower(s, [a, b], name="f", target=target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("n", "k", "threads"), [(20, 100, 32), (4, 7, 7), (8, 33, 5)])
@pytest.mark.sample(6)
def test_row_sums_by_several_threads_agree_with_numpy(target, n, k, threads):
    x, y = random(n, k), np.zeros(n, "float32")
    build(row_sums(n, k, threads), require_target(target))["f"](x, y)
    np.testing.assert_allclose(y, x.sum(1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_softmax_of_a_row_in_a_block(target):
    n, m = 20, 64
    x = te.placeholder((n, m), name="X")
    r, q = te.reduce_axis((0, m), name="r"), te.reduce_axis((0, m), name="q")
    largest = te.compute((n,), lambda i: te.max(x(i, r), axis=r), name="M")
    power = te.compute((n, m), lambda i, j: tir.exp(x(i, j) - largest(i)), name="E")
    total = te.compute((n,), lambda i: te.sum(power(i, q), axis=q), name="S")
    y = te.compute((n, m), lambda i, j: power(i, j) / total(i), name="Y")
    s = te.create_schedule(y.op)
    block, thread = axes("blockIdx.x", "threadIdx.x")
    _, column = s[y].split(y.op.axis[1], factor=32)
    s[y].bind(y.op.axis[0], block)
    s[y].bind(column, thread)
    s[power].compute_inline()
    for t in (largest, total):
        s[t].compute_at(s[y], y.op.axis[0])
        s[t].set_scope("shared")
        _, inner = s[t].split(t.op.reduce_axis[0], factor=32)
        s[t].bind(inner, thread)
    values, out = random(n, m), np.zeros((n, m), "float32")
    build(te.lower(s, [x, y], name="f"), require_target(target))["f"](values, out)
    expected = np.exp(values - values.max(1, keepdims=True))
    np.testing.assert_allclose(out, expected / expected.sum(1, keepdims=True), rtol=1e-5)


def argmax_reducer():
    def combine(a, b):
        first = tir.any(a[1] > b[1], tir.all(tir.eq(a[1], b[1]), a[0] < b[0]))
        return tir.select(first, a[0], b[0]), tir.select(first, a[1], b[1])

    def identity(index, value):
        return tir.const(2**31 - 1, index), tir.const(-np.inf, value)

    return te.comm_reducer(combine, identity, name="argmax")


@pytest.mark.parametrize("shuffles", [False, True])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.sample(4)
def test_argmax_by_several_threads_returns_position_and_value(target, shuffles):
    n, m = 9, 50
    x = te.placeholder((n, m), name="X")
    r = te.reduce_axis((0, m), name="r")
    argmax = argmax_reducer()
    position, value = te.compute((n,), lambda i: argmax((r.var, x(i, r)), axis=r), name="P")
    s = te.create_schedule(position.op)
    block, thread = axes("blockIdx.x", "threadIdx.x")
    _, inner = s[position].split(position.op.reduce_axis[0], factor=32)
    s[position].bind(position.op.axis[0], block)
    s[position].bind(inner, thread)
    values = np.random.default_rng(2).integers(0, 9, (n, m)).astype("float32")
    where, largest = np.zeros(n, "int32"), np.zeros(n, "float32")
    func = te.lower(s, [x, position, value], name="f", target=target if shuffles else None)
    assert ("warp_shuffle" in str(func)) == (shuffles and "emulate" in target)
    build(func, require_target(target))["f"](values, where, largest)
    np.testing.assert_array_equal(where, values.argmax(1))
    np.testing.assert_array_equal(largest, values.max(1))


@pytest.mark.parametrize("scope", ["shared", "local"])
@pytest.mark.parametrize("target", ["opencl", "cuda -emulate=1"])
def test_a_stage_at_the_loop_that_is_bound_depends_on_those_around_it(target, scope):
    n, m = 5, 100
    x = te.placeholder((n, m), name="X")
    doubled = te.compute((n, m), lambda i, j: x(i, j) * 2.0, name="D")
    r = te.reduce_axis((0, m), name="k")
    position, value = te.compute((n,), lambda i: argmax_reducer()((r.var, doubled(i, r)), axis=r), name="P")
    s = te.create_schedule(position.op)
    block, thread = axes("blockIdx.x", "threadIdx.x")
    _, inner = s[position].split(position.op.reduce_axis[0], factor=32)
    s[position].bind(position.op.axis[0], block)
    s[position].bind(inner, thread)
    s[doubled].compute_at(s[position], inner)
    s[doubled].set_scope(scope)
    if scope == "shared":
        s[doubled].bind(s[doubled].split(doubled.op.axis[1], factor=32)[1], thread)
    values = np.random.default_rng(2).integers(0, 9, (n, m)).astype("float32")
    where, largest = np.zeros(n, "int32"), np.zeros(n, "float32")
    build(te.lower(s, [x, position, value], name="f"), require_target(target))["f"](values, where, largest)
    np.testing.assert_array_equal(where, values.argmax(1))
    np.testing.assert_array_equal(largest, 2 * values.max(1))


def test_data_axes_must_stand_outside():
    a = te.placeholder((8, 8), name="A")
    r = te.reduce_axis((0, 8), name="k")
    b = te.compute((8,), lambda i: te.sum(a(i, r), axis=r), name="B")
    s = te.create_schedule(b.op)
    s[b].reorder(b.op.reduce_axis[0], b.op.axis[0])
    s[b].bind(b.op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match="has the data axis i inside of it; reorder the data axes outwards"):
        te.lower(s, [a, b])


@pytest.mark.parametrize("kind", ["cuda", "metal"])
@pytest.mark.parametrize(("n", "k", "threads"), [(20, 100, 32), (16, 33, 8), (8, 9, 2), (7, 100, 32), (7, 33, 8)])
@pytest.mark.sample(4)
def test_row_sums_by_shuffles_are_those_through_shared_memory(n, k, threads, kind):
    x, y, z = random(n, k), np.zeros(n, "float32"), np.zeros(n, "float32")
    target = require_target(f"{kind} -emulate=1" + (" -thread_warp_size=8" if threads * 4 % 32 else ""))
    shuffled = row_sums(n, k, threads, target)
    assert "warp_shuffle_down" in str(shuffled) and "shared" not in str(shuffled)
    build(shuffled, target)["f"](x, y)
    build(row_sums(n, k, threads), target)["f"](x, z)
    np.testing.assert_array_equal(y, z)
    np.testing.assert_allclose(y, x.sum(1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [5, 40])
def test_no_shuffles_beyond_a_warp_or_among_uneven_groups(threads):
    assert "warp_shuffle" not in str(row_sums(8, 100, threads, "cuda"))


def test_shuffles_stand_outside_of_the_conditions_that_threads_of_a_warp_disagree_on():
    lines = str(row_sums(7, 100, 8, "cuda")).splitlines()
    indents = {len(line) - len(line.lstrip()) for line in lines if "warp_shuffle" in line}
    guards = {len(line) - len(line.lstrip()) for line in lines if "if " in line}
    assert len(indents) == 1 and indents <= guards


def test_shuffles_compile_for_cuda_and_for_no_other_warp():
    func = row_sums(16, 100, 32, "cuda")
    with pytest.raises(TargetError, match=r"lowered for warps of 32 threads; opencl .* has warps of 1"):
        emit_device([func], Target("opencl"))
    text, _ = emit_device([func], Target("cuda"))
    try:
        assert compile_cubin(text, "sm_80")[:4] == b"\x7fELF"
    except EnvironmentError_ as error:
        pytest.skip(str(error))
