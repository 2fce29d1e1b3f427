"""Stages in the scope "warp", in the registers of the threads of a warp: run, and refused where nothing shuffles."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.source.programs import axes, require_target
from tests.codegen.source.test_device import random
from tilewright import te, tir
from tilewright.backend import build
from tilewright.codegen.build_device import emit_device
from tilewright.errors import EnvironmentError_, ScheduleError
from tilewright.runtime.gpu.nvrtc import compile_cubin
from tilewright.target import Target

SHUFFLING = ["cuda -emulate=1", "metal -emulate=1"]


def through_a_warp(n, read, length, target, block=32, threads=32, dtype="float32"):
    """B[i] = read(A, i) for i < length, with A copied to the scope warp by blocks of rows."""
    a = te.placeholder((n,), dtype, name="A")
    b = te.compute((length,), lambda i: read(a, i), name="B")
    s = te.create_schedule(b)
    cached = s.cache_read(a, "warp", [b])
    x, thread = axes("blockIdx.x", "threadIdx.x")
    outer, inner = s[b].split(b.op.axis[0], factor=block)
    _, lane = s[b].split(inner, factor=threads)
    s[b].bind(outer, x)
    s[b].bind(lane, thread)
    s[cached].compute_at(s[b], outer)
    _, lane = s[cached].split(s[cached].op.axis[0], factor=threads)
    s[cached].bind(lane, thread)
    return te.lower(s, [a, b], name="f", target=target)


READS = {
    "rotated": (96, 32, 32, lambda a, i: a[i] - a[i // 32 * 32 + (i + 1) % 32]),
    "rotated within half warps": (96, 32, 16, lambda a, i: a[i] - a[i // 16 * 16 + (i + 1) % 16]),
    "neighbours": (95, 32, 32, lambda a, i: a[i + 1] - a[i]),
    "neighbours, last block not full": (70, 64, 32, lambda a, i: a[i + 1] - a[i]),
    "the first of the block": (96, 32, 32, lambda a, i: a[i] - a[i // 32 * 32]),
}


@pytest.mark.parametrize("target", SHUFFLING)
@pytest.mark.parametrize("case", READS)
@pytest.mark.sample(4)
def test_reads_of_other_threads(case, target):
    length, block, threads, read = READS[case]
    func = through_a_warp(96, read, length, require_target(target), block, threads)
    assert "warp_shuffle" in str(func) and "shared" not in str(func)
    x, y = random(96), np.zeros(length, "float32")
    build(func, target)["f"](x, y)
    i = np.arange(length)
    np.testing.assert_array_equal(y, read(x, i))


@pytest.mark.parametrize("target", SHUFFLING)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "bool", "float16"])
@pytest.mark.sample(4)
def test_every_element_type_goes_through_a_warp(dtype, target):
    func = through_a_warp(64, lambda a, i: a[63 - i], 64, require_target(target), 64, dtype=dtype)
    x = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, 64).astype(dtype)
    y = np.zeros_like(x)
    build(func, target)["f"](x, y)
    np.testing.assert_array_equal(y, x[::-1])


@pytest.mark.parametrize("target", SHUFFLING)
def test_a_product_with_its_tiles_in_registers(target):
    """Each thread of a warp has a column of the result; the row of A it needs is spread over the warp."""
    n, m, depth = 8, 64, 64
    a, b = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c)
    local = s.cache_write(c, "local")
    rows = s.cache_read(a, "warp", [local])
    i, j = c.op.axis
    j_outer, j_inner = s[c].split(j, factor=32)
    for loop, thread in zip((i, j_outer, j_inner), axes("blockIdx.y", "blockIdx.x", "threadIdx.x")):
        s[c].bind(loop, thread)
    s[local].compute_at(s[c], j_inner)
    outer, _ = s[local].split(s[local].op.reduce_axis[0], factor=32)
    s[rows].compute_at(s[local], outer)
    s[rows].bind(s[rows].op.axis[1], te.thread_axis("threadIdx.x"))
    func = te.lower(s, [a, b, c], name="f", target=require_target(target))
    assert "warp_shuffle" in str(func)
    x, y, z = random(n, depth), random(depth, m), np.zeros((n, m), "float32")
    build(func, target)["f"](x, y, z)
    np.testing.assert_allclose(z, x @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["opencl", "webgpu"])
def test_devices_without_shuffles_are_refused(target):
    with pytest.raises(ScheduleError, match=r"A\.warp: the scope warp needs a target whose threads shuffle"):
        through_a_warp(64, lambda a, i: a[63 - i], 64, target, 64)


def test_a_guard_of_threads_is_no_position_for_a_loop_over_reads():
    def read(a, i):
        k = te.reduce_axis((0, 32), name="k")
        return te.sum(a[i // 32 * 32 + k], axis=k)

    with pytest.raises(ScheduleError, match="on which threads disagree, so that not all of them take part"):
        through_a_warp(96, read, 70, "cuda")


def test_text_compiles_for_cuda():
    func = through_a_warp(96, lambda a, i: tir.exp(a[i] - a[i // 32 * 32 + (i + 1) % 32]), 96, "cuda")
    text, _ = emit_device([func], Target("cuda"))
    try:
        assert compile_cubin(text, "sm_80")[:4] == b"\x7fELF"
    except EnvironmentError_ as error:
        pytest.skip(str(error))
