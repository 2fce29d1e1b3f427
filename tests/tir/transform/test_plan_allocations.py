"""plan_allocations: what goes where, how large, and still the right result."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import UnsupportedError
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Var
from tilewright.tir.op import const
from tilewright.tir.stmt import Allocate, BufferStore, DeclBuffer, For, ForKind, PrimFunc, seq
from tilewright.tir.transform.lower_parallel import lower_parallel
from tilewright.tir.transform.plan_allocations import STACK_BYTES, plan_allocations
from tilewright.tir.transform.statements import walk

A, C = Buffer("a", [8]), Buffer("c", [8])
I, J = Var("i"), Var("j")


def through(t, kind):
    """c[i] = a[i] by way of t[i], the allocation inside the loop."""
    body = seq(BufferStore(t, BufferLoad(A, [I]), (I,)), BufferStore(C, BufferLoad(t, [I]), (I,)))
    return For(I, const(0), const(8), kind, Allocate(t, body))


def run(interpret, body, workers=2):
    func = plan_allocations(lower_parallel(PrimFunc("f", [A, C], body)))
    a, c = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    interpret(func, a, c, workers=workers)
    np.testing.assert_array_equal(c, a)
    return func


def test_small_private_allocation_is_on_the_stack(interpret):
    func = run(interpret, through(Buffer("t", [8]), ForKind.PARALLEL))
    allocate = next(s for s in walk(func.body) if isinstance(s, Allocate))
    assert allocate.buffer.scope == "local"
    assert func.attrs["workspace_bytes"] == func.attrs["worker_workspace_bytes"] == 0
    assert [p.name for p in func.params] == ["a", "c"]


@pytest.mark.parametrize("scope", ["global", "local"])
def test_large_private_allocation_is_in_the_workers_workspace(interpret, scope):
    elements = STACK_BYTES // 4 + 1
    func = run(interpret, through(Buffer("t", [elements], scope=scope), ForKind.PARALLEL))
    assert func.attrs["workspace_bytes"] == 0
    assert func.attrs["worker_workspace_bytes"] == STACK_BYTES + 64
    assert [p.name for p in func.params] == ["a", "c", "workspace", "worker_workspace"]
    assert any(isinstance(s, DeclBuffer) for s in walk(func.body))


def test_shared_allocations_get_places_of_their_own(interpret):
    t, u = Buffer("t", [8]), Buffer("u", [3])
    first = For(I, const(0), const(8), ForKind.PARALLEL, BufferStore(t, BufferLoad(A, [I]), (I,)))
    second = For(J, const(0), const(8), ForKind.PARALLEL, BufferStore(C, BufferLoad(t, [7 - (7 - J)]), (J,)))
    side = Allocate(u, BufferStore(u, const(3.0), (const(0),)))
    func = run(interpret, Allocate(t, seq(first, side, second)))
    assert func.attrs["workspace_bytes"] == 128
    assert func.params[-2].constant_shape() == (128,)


def test_symbolic_size_is_refused():
    n = Var("n")
    body = Allocate(Buffer("t", [n]), BufferStore(C, const(0.0), (const(0),)))
    with pytest.raises(UnsupportedError, match="symbolic size"):
        plan_allocations(lower_parallel(PrimFunc("f", [n, C], body)))
