"""Errors of users in the tensor language: a message names the stage and the reason."""

import json

import pytest

from tilewright import te, tir
from tilewright.errors import ScheduleError


@pytest.fixture
def names():
    """A is given; P = A + 1 is read by the reduction R over rows, and R by the output D."""
    A = te.placeholder((8, 16), name="A")
    P = te.compute((8, 16), lambda i, j: A[i, j] + 1.0, name="P")
    k = te.reduce_axis((0, 16), "k")
    R = te.compute((8,), lambda i: te.sum(P[i, k], axis=k), name="R")
    D = te.compute((8,), lambda i: R[i] * 2.0, name="D")
    return {"te": te, "tir": tir, "A": A, "P": P, "R": R, "D": D, "k": k, "s": te.create_schedule(D)}


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("s[P].set_scope('lcoal')", "set_scope of P: there is no memory scope 'lcoal'; known are global, shared"),
        ("s.cache_read(A, 'sharde', [P])", "cache_read of A: there is no memory scope 'sharde'"),
        ("s.cache_write(D, 'stack')", "cache_write of D: there is no memory scope 'stack'"),
        ("s.rfactor(P, P.op.axis[0])", "rfactor of P: it is no reduction"),
        ("s.rfactor(R, R.op.axis[0])", "rfactor of R: i is a data axis; choose an axis of the reduction"),
        ("s.rfactor(R, D.op.axis[0])", r"rfactor of R: i is not one of its loops \(i, k\)"),
        ("s.rfactor(R, k, 5)", "rfactor of R: factor_axis 5 is outside the 2 dimensions"),
        ("s[R].unroll(k); s.rfactor(R, k)", "rfactor of R: k is marked already; mark it after rfactor"),
        ("s[P].compute_at(s[R], k); s.rfactor(R, k)", "P is computed at its reduction axis k; call compute_at after"),
        ("s[D].prefetch(A, D.op.axis[0], 1)", "prefetch of A: stage D does not read it"),
        ("s[R].prefetch(P, k, 0)", "prefetch of P in stage R: 0 iterations ahead; at least 1"),
        ("s[R].prefetch(P, D.op.axis[0], 1)", "prefetch of axis i in stage R: it is not one of the stage's loops"),
        ("s[P].set_store_predicate(P.op.axis[0].var + 1)", "set_store_predicate of P: i . 1 is int32, not a condition"),
        ("s[A].set_store_predicate(tir.const(True))", "set_store_predicate of A: PlaceholderOp A has no stores"),
        ("s[D].double_buffer()", "double_buffer of D: an output of the schedule"),
        ("s[A].double_buffer()", "double_buffer of A: a placeholder is given by the caller"),
        ("s[D].rolling_buffer()", "rolling_buffer of D: an output of the schedule"),
        ("s[P].double_buffer(); s[P].rolling_buffer()", "rolling_buffer of P: it is double buffered"),
        ("s[P].rolling_buffer(); s[P].double_buffer()", "double_buffer of P: its buffer rolls along the loop"),
        (
            "s[P].env_threads([te.thread_axis('threadIdx.x')])",
            r"env_threads of P: needs te.thread_axis\(\(0, n\), tag\)",
        ),
        ("s.create_group([P], [D])", "create_group: P does not depend on the group's inputs"),
        (
            "s.create_group([R], [A]); s.create_group([D], [P])",
            "create_group: R is in another group already, with stages",
        ),
        ("s.create_group([R], [A]).compute_at(s[P], P.op.axis[0])", r"the group \(P, R\): P belongs to it"),
        (
            "s.create_group([R], [A]).compute_at(s[D], k)",
            r"the group \(P, R\): k is not a loop of D; its loops are \(i\)",
        ),
        ("s.create_group([D], [A]).compute_at(s[P], P.op.axis[0])", "belongs to it"),
    ],
)
def test_a_step_that_cannot_be_done_says_why(names, step, message):
    with pytest.raises(ScheduleError, match=message):
        exec(step, names)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("s[P].compute_at(s[D], D.op.axis[0])", "compute_at of P: its reader R is not computed inside loop i of D"),
        ("s[P].compute_at(s[R], k); s[R].compute_at(s[P], P.op.axis[0])", "computed inside each other"),
        ("s[R].prefetch(P, k, 1); s[P].compute_inline()", "prefetch of P in stage R: it is inlined"),
        (
            "s[R].prefetch(P, R.op.axis[0], 1); s[P].compute_at(s[R], k)",
            "prefetch of P in stage R: it is computed inside",
        ),
        ("s[D].split(D.op.axis[0], nparts=n); s[D].vectorize(s[D].leaf_iter_vars[1])", "vectorized, but its extent"),
    ],
)
def test_a_schedule_that_cannot_be_lowered_says_why(names, steps, message):
    with pytest.raises(ScheduleError, match=message):
        exec(steps, {**names, "n": te.size_var("n")})
        te.lower(names["s"], [names["A"], names["D"]])


def test_arguments_that_are_missing_are_named(names):
    with pytest.raises(ScheduleError, match="the output D is not among the arguments"):
        te.lower(names["s"], [names["A"]])
    with pytest.raises(ScheduleError, match="A is read but is not among the arguments"):
        te.lower(names["s"], [names["D"]])
    with pytest.raises(ScheduleError, match="D is given twice"):
        te.lower(names["s"], [names["D"], names["A"], names["D"]])


def _saved(do, on, of):
    return json.dumps({"format": 1, "steps": [{"do": do, "on": on, "of": of, "args": [], "kwargs": {}, "makes": []}]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "this is no saved schedule"),
        ("[]", "this is no saved schedule"),
        ('{"format": 99, "steps": []}', "saved in format 99; this version reads format 1"),
        (_saved("unroll", "stage", "Z"), "speaks of the stage 'Z', which this graph does not have"),
        (_saved("normalize", "schedule", ""), "the step 'normalize', which is no primitive"),
    ],
)
def test_a_saved_schedule_of_something_else_is_refused(names, text, message):
    with pytest.raises(ScheduleError, match=message):
        te.load_schedule(names["D"], text)


def test_a_saved_schedule_needs_its_intrinsics():
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] + 1.0, name="C")
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] + 1.0, name="y")
    plus = te.decl_tensor_intrin(y.op, lambda ins, outs: tir.Evaluate(tir.call_extern("int32", "f")), "plus_one")
    s = te.create_schedule(C)
    _, inner = s[C].split(C.op.axis[0], factor=4)
    s[C].tensorize(inner, plus)
    assert "s[C].tensorize(i_inner, intrinsics['plus_one'])" in s.to_text()
    again = te.load_schedule(C, s.to_json(), {"plus_one": plus})
    assert str(te.schedule_to_tir(again, [A, C])) == str(te.schedule_to_tir(s, [A, C]))
    with pytest.raises(ScheduleError, match="speaks of the intrinsic 'plus_one'"):
        te.load_schedule(C, s.to_json())
