"""coproc_sync: tokens alone keep instructions of different units in order, and each token is needed."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tir.transform.dae_machine import Deadlock, Machine, at_random, priority
from tilewright.errors import ScheduleError
from tilewright.tir import (
    Allocate,
    AttrStmt,
    Buffer,
    BufferStore,
    Call,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    StringImm,
    Var,
    const,
    seq,
    to_text,
)
from tilewright.tir.transform.coproc_sync import coproc_sync
from tilewright.tir.transform.statements import walk
from tilewright.tir.verify import verify
from tilewright.tir.visitor import StmtRewriter

A, C = Buffer("A", [8, 4]), Buffer("C", [8, 4])
S, T, U = (Buffer(name, [2, 4], scope="dae.memory") for name in "STU")
K, M = Var("k"), Var("m")
ORDERS = list(permutations((1, 2, 3)))


def on(unit, *stmts):
    return AttrStmt("coproc_scope", None, const(unit), seq(*stmts))


def rows(unit, target, row, source, from_row, scale=1.0):
    """One instruction: a row of four elements, times `scale`."""
    j = Var("j")
    return on(unit, serial(j, 4, BufferStore(target, source[from_row, j] * scale, (row + const(0), j))))


def serial(var, extent, body):
    return For(var, const(0), const(extent), ForKind.SERIAL, body)


def function(*stmts):
    body = seq(*stmts)
    for buffer in (S, T, U):
        body = Allocate(buffer, body)
    return PrimFunc("f", [A, C], body)


def calls(func):
    return [s for s in walk(func.body) if isinstance(s, Evaluate) and s.value.op.startswith("dep_")]


def tokens(func):
    return [(s.value.op, *[a.value for a in s.value.args]) for s in calls(func)]


def without(func, dropped):
    class Dropper(StmtRewriter):
        def visit_Stmt(self, stmt):
            return SeqStmt(()) if stmt is dropped else self.rebuild(stmt)

    return Dropper()(func)


def results(func, orders):
    a = np.arange(32, dtype="float32").reshape(8, 4) + 1
    found = []
    for order in orders:
        c = np.zeros((8, 4), "float32")
        Machine(func, a, c).execute(order)
        found.append(c)
    return found


def in_order(func):
    """The result of the program as it was written, one statement after the other."""
    a, c = np.arange(32, dtype="float32").reshape(8, 4) + 1, np.zeros((8, 4), "float32")
    machine = Machine(func, a, c)
    for instruction in machine.program:
        instruction.action()
    return c


def pipeline(buffers):
    """Load, compute, store in each of 8 / n iterations, with n rows of each buffer."""
    parts = [rows(1, T, i, A, K * buffers + i) for i in range(buffers)]
    parts += [rows(2, S, i, T, i, 2.0) for i in range(buffers)]
    parts += [rows(3, C, K * buffers + i, S, i) for i in range(buffers)]
    return function(serial(K, 8 // buffers, seq(*parts)))


def test_a_straight_line_has_one_token_a_dependence():
    func = coproc_sync(function(rows(1, T, 0, A, 0), rows(2, S, 0, T, 0), rows(3, C, 0, S, 0)))
    assert tokens(func) == [("dep_push", 1, 2), ("dep_pop", 1, 2), ("dep_push", 2, 3), ("dep_pop", 2, 3)]
    verify(func)


def test_a_loop_has_pushes_before_and_drains_after():
    func = coproc_sync(function(serial(K, 8, seq(rows(1, T, 0, A, K), rows(2, S, 0, T, 0)))))
    assert tokens(func) == [
        ("dep_push", 2, 1),
        ("dep_pop", 2, 1), ("dep_push", 1, 2), ("dep_pop", 1, 2), ("dep_push", 2, 1),
        ("dep_pop", 2, 1),
    ]  # fmt: skip


def test_independent_instructions_need_none():
    assert tokens(coproc_sync(function(rows(1, T, 0, A, 0), rows(2, S, 0, T, 1)))) == []
    assert tokens(coproc_sync(function(serial(K, 8, rows(1, T, 0, A, K))))) == []


def test_one_token_stands_for_those_it_implies():
    func = coproc_sync(function(rows(1, T, 0, A, 0), rows(1, T, 1, A, 1), rows(2, S, 0, T, 1), rows(2, S, 1, T, 0)))
    assert tokens(func) == [("dep_push", 1, 2), ("dep_pop", 1, 2)]


@pytest.mark.parametrize("buffers", [1, 2])
def test_every_order_that_tokens_allow_gives_the_result(buffers):
    func = coproc_sync(pipeline(buffers))
    want = 2 * (np.arange(32, dtype="float32").reshape(8, 4) + 1)
    for got in results(func, [*map(priority, ORDERS), *map(at_random, range(20))]):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("buffers", [1, 2])
def test_without_the_tokens_of_a_queue_the_result_is_wrong(buffers):
    func = coproc_sync(pipeline(buffers))
    want = in_order(pipeline(buffers))
    queues = {(a, b) for _, a, b in tokens(func)}
    assert queues == {(1, 2), (2, 1), (2, 3), (3, 2)}
    for queue in queues:
        cut = func
        for call in calls(func):
            if tuple(x.value for x in call.value.args) == queue:
                cut = without(cut, call)
        assert any(not np.array_equal(got, want) for got in results(cut, map(priority, ORDERS))), queue


@pytest.mark.parametrize("buffers", [1, 2])
def test_without_any_one_token_the_machine_stops_or_has_one_left(buffers):
    func = coproc_sync(pipeline(buffers))
    assert calls(func)
    for call in calls(func):
        with pytest.raises(Deadlock):
            results(without(func, call), [priority((1, 2, 3))])


def test_two_buffers_hide_the_latency_of_loads():
    arrays = np.ones((8, 4), "float32"), np.zeros((8, 4), "float32")
    cycles = {n: Machine(coproc_sync(pipeline(n)), *arrays).simulate(lambda _: 10)[0] for n in (1, 2)}
    assert cycles == {1: 170, 2: 100}  # with two, all 8 loads back to back, then the last row's way out


INSTRUCTIONS = st.builds(
    rows,
    st.sampled_from([1, 2, 3]),
    st.sampled_from([S, T, U]),
    st.integers(0, 1),
    st.sampled_from([S, T, U]),
    st.integers(0, 1),
    st.sampled_from([0.5, 1.0, -1.0]),
)


def nested(inner):
    def loop(parts):
        return serial(Var("i"), 2, seq(*parts))

    def branch(parts):
        return IfThenElse(const(True, "bool"), seq(*parts))

    some = st.lists(inner, min_size=1, max_size=4)
    return st.one_of(some.map(loop), some.map(branch))


@settings(max_examples=30, derandomize=True, deadline=None, database=None)
@given(st.lists(st.recursive(INSTRUCTIONS, nested, max_leaves=6), min_size=1, max_size=6))
def test_any_allowed_order_computes_the_same(parts):
    """Whatever the loops and the units: any order gives what the written order gives."""
    fill = [rows(1, b, i, A, i) for b in (S, T, U) for i in (0, 1)]
    drain = [rows(3, C, 2 * n + i, b, i) for n, b in enumerate((S, T, U)) for i in (0, 1)]
    plain = function(*fill, *parts, *drain)
    func = coproc_sync(plain, links=frozenset((a, b) for a in (1, 2, 3) for b in (1, 2, 3)))
    want = in_order(plain)
    for got in results(func, [*map(priority, ORDERS), at_random(0)]):
        np.testing.assert_array_equal(got, want)


INDICES = [lambda i, m: i, lambda i, m: 1 - i, lambda i, m: m, lambda i, m: (i + m) % 2, lambda i, m: const(1)]


@settings(max_examples=30, derandomize=True, deadline=None, database=None)
@given(st.lists(st.tuples(*[st.sampled_from(x) for x in ((1, 2, 3), (S, T, U), INDICES, (S, T), INDICES)]), max_size=7))
def test_rows_that_vary_with_loops(parts):
    """Dependences change from one iteration of two loops to the next."""
    fill = [rows(1, b, i, A, i) for b in (S, T, U) for i in (0, 1)]
    drain = [rows(3, C, 2 * n + i, b, i) for n, b in enumerate((S, T, U)) for i in (0, 1)]
    half = len(parts) // 2
    outer = [rows(unit, b, f(M, M), d, g(M, M), 0.5) for unit, b, f, d, g in parts[:half]]
    inner = [rows(unit, b, f(K, M), d, g(K, M), 1.5) for unit, b, f, d, g in parts[half:]]
    plain = function(*fill, serial(M, 2, seq(*outer, serial(K, 2, seq(*inner)))), *drain)
    func = coproc_sync(plain, links=frozenset((a, b) for a in (1, 2, 3) for b in (1, 2, 3)))
    want = in_order(plain)
    for got in results(func, [*map(priority, ORDERS), at_random(0)]):
        np.testing.assert_array_equal(got, want)


def test_a_token_is_not_taken_by_a_loop_in_between():
    """The loop passes tokens on the same queue: one that was left for after it would let its first pop go ahead."""
    loop = serial(K, 2, seq(rows(1, U, 0, A, K), rows(2, S, K, U, 0)))
    plain = function(rows(1, T, 0, A, 7), loop, rows(2, T, 1, T, 0), *[rows(3, C, i, S, i) for i in (0, 1)])
    want = in_order(plain)
    for got in results(coproc_sync(plain), map(priority, ORDERS)):
        np.testing.assert_array_equal(got, want)


def test_an_index_that_a_let_hides_is_taken_as_any():
    x = Var("x")
    body = seq(rows(1, T, 0, A, K), LetStmt(x, K // 4, on(2, BufferStore(S, T[x, 0], (x, const(0))))))
    assert ("dep_push", 2, 1) in tokens(coproc_sync(function(serial(K, 8, body))))


def test_a_pragma_marks_a_loop():
    loop = For(
        K, const(0), const(4), ForKind.SERIAL, BufferStore(T, A[0, K], (const(0), K)), "", {"coproc_scope": "load"}
    )
    text = to_text(coproc_sync(function(loop)))
    assert "with attribute('coproc_scope', 1)" in text and "coproc_scope =" not in text


def test_units_that_no_queue_joins_are_refused():
    with pytest.raises(ScheduleError, match="unit store depends on unit load through T, and no queue of tokens joins"):
        coproc_sync(function(rows(1, T, 0, A, 0), rows(3, C, 0, T, 0)))


def test_a_statement_of_no_unit_may_not_touch_what_units_write():
    with pytest.raises(ScheduleError, match="T is written by a unit and accessed by a statement of no unit"):
        coproc_sync(function(rows(1, T, 0, A, 0), BufferStore(C, T[0, 0], (const(0), const(0)))))


@pytest.mark.parametrize("unit", [const(0), StringImm("fetch")])
def test_an_unknown_unit_is_refused(unit):
    body = AttrStmt("coproc_scope", None, unit, BufferStore(T, A[0, 0], (const(0), const(0))))
    with pytest.raises(ScheduleError, match="coproc_scope: there is no unit"):
        coproc_sync(function(body))


def test_memory_whose_address_is_taken_may_be_accessed_whole():
    call = Call("int32", "call_extern", (StringImm("f"), T.access_ptr("r")))
    func = coproc_sync(function(rows(1, T, 1, A, 0), on(2, Evaluate(call))))
    assert tokens(func) == [("dep_push", 1, 2), ("dep_pop", 1, 2)]
