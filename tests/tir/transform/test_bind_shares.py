"""Parallel loops as blocks of one thread."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.tir.stmt import Allocate, ForKind
from tilewright.tir.transform.bind_shares import bind_shares
from tilewright.tir.transform.bind_threads import is_thread_loop
from tilewright.tir.transform.pipeline import PROCESSOR_DEVICE
from tilewright.tir.transform.split_host_device import split_host_device
from tilewright.tir.transform.statements import walk


def _lowered(extent: int) -> tir.PrimFunc:
    """Row sums in one parallel loop, each into a buffer of its own, scaled in a second."""
    a = te.placeholder((extent, 8), name="a")
    k = te.reduce_axis((0, 8), "k")
    sums = te.compute((extent,), lambda i: te.sum(a[i, k], axis=k), name="sums")
    out = te.compute((extent,), lambda i: sums[i] * 2.0, name="out")
    s = te.create_schedule([out.op])
    s[sums].parallel(s[sums].op.axis[0])
    s[out].parallel(s[out].op.axis[0])
    *_, (_, func) = te.lower_stages(s, [a, out], "f", pipeline=PROCESSOR_DEVICE)
    return func


@pytest.mark.parametrize("extent", [2, 7, 32, 100])
def test_each_parallel_loop_is_a_kernel_whose_blocks_take_all_of_it(extent: int) -> None:
    program = split_host_device(_lowered(extent))
    assert len(program.launches) == 2 and [buffer.name for buffer in program.temporaries] == ["sums"]
    for launch in program.launches:
        assert launch.block == (1, 1, 1)
        blocks = launch.grid[0].value
        assert blocks == min(extent, 32)
        bounds = [extent * b // blocks for b in range(blocks + 1)]
        assert np.all(np.diff(bounds) > 0) and bounds[-1] == extent


def test_what_is_between_parallel_loops_is_one_threads_and_memory_within_is_its_own() -> None:
    n = 12
    a, b = tir.Buffer("a", [n], "float32"), tir.Buffer("b", [n], "float32")
    i, held = tir.Var("i"), tir.Buffer("held", [4], "float32")
    inside = Allocate(
        held, tir.seq(tir.BufferStore(held, a[i], (tir.const(0),)), tir.BufferStore(b, held[tir.const(0)], (i,)))
    )
    loop = tir.For(i, tir.const(0), tir.const(n), ForKind.PARALLEL, inside)
    first = tir.BufferStore(b, tir.const(1.0, "float32"), (tir.const(0),))
    func = bind_shares(tir.PrimFunc("f", [a, b], tir.seq(first, loop)))
    kernels = [s for s in walk(func.body) if is_thread_loop(s) and s.thread == "threadIdx.x"]
    assert len(kernels) == 2
    assert [s.buffer.scope for s in walk(func.body) if isinstance(s, Allocate)] == ["local"]
    assert not any(getattr(s, "kind", None) is ForKind.PARALLEL for s in walk(func.body))
