"""lower_parallel: every number of workers, in any order between barriers, gives the serial result."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.source.programs import require_target
from tilewright.backend import build
from tilewright.errors import InputError
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Var
from tilewright.tir.op import cast, const, less
from tilewright.tir.stmt import Allocate, AssertStmt, BufferStore, Evaluate, For, ForKind, IfThenElse, PrimFunc, seq
from tilewright.tir.transform.lower_parallel import lower_parallel
from tilewright.tir.transform.plan_allocations import plan_allocations
from tilewright.tir.transform.statements import walk

A, B, C = Buffer("a", [10]), Buffer("b", [10]), Buffer("c", [10])
I, J, K = Var("i"), Var("j"), Var("k")


def loop(var, extent, body, kind=ForKind.PARALLEL):
    return For(var, const(0), const(extent), kind, body)


def barriers(func):
    return sum(
        isinstance(t, Evaluate) and isinstance(t.value, Call) and t.value.op == "barrier" for t in walk(func.body)
    )


def agree(interpret, body, workers):
    func = PrimFunc("f", [A, B, C], body)
    lowered = lower_parallel(func)
    assert lowered.attrs["spmd"] is True
    assert all(t.kind is ForKind.SERIAL for t in walk(lowered.body) if isinstance(t, For))
    start = np.arange(30, dtype=np.float32).reshape(3, 10)
    expected, forward, backward = start.copy(), start.copy(), start.copy()
    interpret(func, *expected)
    interpret(lowered, *forward, workers=workers)
    interpret(lowered, *backward, workers=workers, backwards=True)
    np.testing.assert_array_equal(forward, expected)
    np.testing.assert_array_equal(backward, expected)
    return lowered


@pytest.mark.parametrize("workers", [1, 2, 3, 16])
def test_shares_cover_the_loop(interpret, workers):
    body = loop(I, 10, BufferStore(B, BufferLoad(A, [I]) + 1.0, (I,)))
    assert barriers(agree(interpret, body, workers)) == 0


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_main_worker_code_between_parallel_loops(interpret, workers):
    body = seq(
        BufferStore(A, const(5.0), (const(0),)),
        loop(I, 10, BufferStore(B, BufferLoad(A, [const(0)]) + BufferLoad(A, [I]), (I,))),
        BufferStore(A, BufferLoad(B, [const(9)]), (const(1),)),
        loop(J, 10, BufferStore(C, BufferLoad(B, [9 - J]), (J,))),
    )
    assert barriers(agree(interpret, body, workers)) == 2


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_serial_loop_around_parallel_loops(interpret, workers):
    body = loop(
        K,
        4,
        seq(
            loop(I, 10, BufferStore(B, BufferLoad(A, [9 - I]) + 1.0, (I,))),
            loop(J, 10, BufferStore(A, BufferLoad(B, [J]), (J,))),
        ),
        ForKind.SERIAL,
    )
    assert barriers(agree(interpret, body, workers)) == 2


def test_no_parallel_loop_runs_on_worker_0(interpret):
    body = loop(I, 10, BufferStore(B, BufferLoad(B, [I]) * 2.0, (I,)), ForKind.SERIAL)
    lowered = agree(interpret, body, 2)
    assert isinstance(lowered.body, IfThenElse)
    assert barriers(lowered) == 0


def test_nested_parallel_loop_is_serial(interpret):
    body = loop(I, 2, loop(J, 5, BufferStore(B, BufferLoad(A, [I * 5 + J]), (I * 5 + J,))))
    agree(interpret, body, 2)


def test_local_allocation_around_a_parallel_loop_is_shared(interpret):
    t = Buffer("t", [10], scope="local")
    body = Allocate(
        t,
        seq(
            loop(I, 10, BufferStore(t, BufferLoad(A, [I]), (I,))),
            loop(J, 10, BufferStore(C, BufferLoad(t, [9 - J]), (J,))),
        ),
    )
    lowered = agree(interpret, body, 2)
    assert next(s for s in walk(lowered.body) if isinstance(s, Allocate)).buffer.scope == "global"


def test_uniform_condition_around_a_parallel_loop(interpret):
    write = loop(I, 10, BufferStore(B, const(1.0), (I,)))
    body = seq(
        BufferStore(A, const(7.0), (const(0),)),
        IfThenElse(BufferLoad(A, [const(0)]) > 6.0, write, BufferStore(C, const(2.0), (const(0),))),
        loop(J, 10, BufferStore(C, BufferLoad(B, [9 - J]), (J,))),
    )
    agree(interpret, body, 2)


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_an_assertion_that_fails_on_one_worker_ends_the_call_for_all(target):
    """The workers that wait for it at the barrier go on; the next call finds the barrier whole."""
    source, middle, result = Buffer("S", [64]), Buffer("T", [64]), Buffer("R", [64])
    i, j, at = Var("i"), Var("j"), Var("at")

    def parallel(var, body):
        return For(var, const(0), const(64), ForKind.PARALLEL, body)

    checked = AssertStmt(
        less(BufferLoad(source, (i,)), 1.0), "too large", BufferStore(middle, cast("float32", i), (i,))
    )
    reversed_ = BufferStore(result, BufferLoad(middle, (63 - j,)), (j,))
    again = BufferStore(middle, BufferLoad(result, (63 - at,)), (at,))
    body = Allocate(middle, seq(parallel(i, checked), parallel(j, reversed_), parallel(at, again)))
    func = plan_allocations(lower_parallel(PrimFunc("f", [source, result], body)))
    call = build(func, require_target(target), threads=4)["f"]
    for bad in (0, 20, 63):
        values, out = np.zeros(64, "float32"), np.zeros(64, "float32")
        values[bad] = 2
        with pytest.raises(InputError, match="f: too large"):
            call(values, out)
        values[bad] = 0
        call(values, out)
        np.testing.assert_array_equal(out, np.arange(64)[::-1])
