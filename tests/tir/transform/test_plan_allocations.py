"""plan_allocations: what goes where, how large, and still the right result."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import UnsupportedError
from tilewright.tir.buffer import Buffer
from tilewright.tir.evaluate import interpret as interpret_func
from tilewright.tir.expr import BufferLoad, SizeVar, Var
from tilewright.tir.op import const
from tilewright.tir.stmt import Allocate, BufferStore, DeclBuffer, For, ForKind, LetStmt, PrimFunc, seq
from tilewright.tir.transform.lower_parallel import lower_parallel
from tilewright.tir.transform.plan_allocations import STACK_BYTES, plan_allocations, workspace_size
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


def test_shared_allocations_get_positions_of_their_own(interpret):
    t, u = Buffer("t", [8]), Buffer("u", [3])
    first = For(I, const(0), const(8), ForKind.PARALLEL, BufferStore(t, BufferLoad(A, [I]), (I,)))
    second = For(J, const(0), const(8), ForKind.PARALLEL, BufferStore(C, BufferLoad(t, [7 - (7 - J)]), (J,)))
    side = Allocate(u, BufferStore(u, const(3.0), (const(0),)))
    func = run(interpret, Allocate(t, seq(first, side, second)))
    assert func.attrs["workspace_bytes"] == 128
    assert func.params[-2].constant_shape() == (128,)


def test_symbolic_sizes_are_expressions_of_the_parameters_and_a_function_computes_them():
    n = SizeVar("n")
    t, u = Buffer("t", [n * 3]), Buffer("u", [n], "uint8", "local")
    body = Allocate(t, Allocate(u, BufferStore(C, const(0.0), (const(0),))))
    func = plan_allocations(lower_parallel(PrimFunc("f", [n, C], body)))
    size = workspace_size(func)
    assert size is not None and size.name == "f__workspace"
    for count, shared, private in ((1, 64, 64), (16, 192, 64), (1000, 12032, 1024), (2**30, 12 * 2**30, 2**30)):
        sizes = np.zeros(2, np.int64)
        interpret_func(size, count, np.zeros(8, np.float32), sizes)
        assert sizes.tolist() == [shared, private]


def test_a_size_that_varies_with_a_loop_takes_its_largest_value():
    n = SizeVar("n")
    t = Buffer("t", [I + 1], "uint8", "local")
    body = For(I, const(0), n, ForKind.SERIAL, Allocate(t, BufferStore(C, const(0.0), (const(0),))))
    size = workspace_size(plan_allocations(lower_parallel(PrimFunc("f", [n, C], body))))
    assert size is not None
    sizes = np.zeros(2, np.int64)
    interpret_func(size, 100, np.zeros(8, np.float32), sizes)
    assert sizes.tolist() == [0, 128]


def test_constant_sizes_need_no_function():
    assert (
        workspace_size(
            plan_allocations(lower_parallel(PrimFunc("f", [A, C], through(Buffer("t", [8]), ForKind.SERIAL))))
        )
        is None
    )


def test_a_size_read_from_memory_is_refused():
    count = Buffer("count", [1], "int32")
    v = Var("v")
    inside = Allocate(Buffer("t", [v]), BufferStore(C, const(0.0), (const(0),)))
    body = LetStmt(v, BufferLoad(count, [const(0)]), inside)
    with pytest.raises(UnsupportedError, match="scalar parameters"):
        plan_allocations(lower_parallel(PrimFunc("f", [count, C], body)))
