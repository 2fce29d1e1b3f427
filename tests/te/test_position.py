"""Source positions of `te.compute`: kept through the schedule, named by errors, no part of what is computed."""

import inspect
import pickle

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.backend import build
from tilewright.errors import InputError, ScheduleError
from tilewright.tir.printer import to_text
from tilewright.tir.stmt import BufferStore, For, IfThenElse
from tilewright.tir.structural import structural_equal, structural_hash
from tilewright.tir.visitor import collect


def doubled():
    a = te.placeholder((8,), name="A")
    k = te.reduce_axis((0, 8), name="k")
    return a, te.compute((8,), lambda i: te.sum(a[i] * a[k], axis=k), name="B")


def position_of_doubled():
    lines, start = inspect.getsourcelines(doubled)
    return f"{__file__}:{start + next(n for n, line in enumerate(lines) if 'te.compute' in line)}"


def test_the_line_of_the_call_is_kept_by_caches_and_factors():
    _, b = doubled()
    assert str(b.op.position) == position_of_doubled()
    s = te.create_schedule(b)
    local = s.cache_write(b, "local")
    factored = s.rfactor(local, local.op.reduce_axis[0])
    assert {str(s[t].op.position) for t in (b, local, factored)} == {position_of_doubled()}


def test_an_error_of_a_primitive_tells_it():
    a, b = doubled()
    s = te.create_schedule(b)
    with pytest.raises(ScheduleError) as caught:
        s[b].parallel(b.op.reduce_axis[0])
    assert caught.value.__notes__ == [f"B is computed at {position_of_doubled()}"]
    with pytest.raises(ScheduleError) as caught:
        s.rfactor(b, b.op.axis[0].__class__(None, b.op.axis[0].var, b.op.axis[0].iter_type))
    assert caught.value.__notes__ == [f"B is computed at {position_of_doubled()}"]
    with pytest.raises(ScheduleError) as caught:
        s[a].compute_inline()
    assert not hasattr(caught.value, "__notes__")


def test_programs_from_other_lines_are_the_same_program():
    a = te.placeholder((8,), name="A")
    first = te.compute((8,), lambda i: a[i] * 2.0, name="B")
    second = te.compute((8,), lambda i: a[i] * 2.0, name="B")
    assert first.op.position != second.op.position
    one, other = (te.lower(te.create_schedule(t), [a, t]) for t in (first, second))
    assert structural_equal(one, other) and structural_hash(one) == structural_hash(other)
    assert str(one) == str(other)


def line_with(function, text):
    lines, start = inspect.getsourcelines(function)
    return start + next(n for n, line in enumerate(lines) if text in line)


def scheduled_product():
    a, b = (te.placeholder((64, 64), name=name) for name in "AB")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((64, 64), lambda i, j: c[i, j] + 1.0, name="D")
    s = te.create_schedule(d.op)
    outer, inner = s[d].split(d.op.axis[0], factor=5)
    s[d].vectorize(d.op.axis[1])
    s[c].compute_at(s[d], outer)
    local = s.cache_read(a, "local", [c])
    s[local].compute_at(s[c], c.op.axis[0])
    s[c].unroll(s[c].split(k, factor=2)[1])
    s[d].unroll(inner)
    return te.lower_stages(s, [a, b, d], name="product")


def test_every_pass_keeps_the_lines_of_loops_and_stores():
    for name, func in scheduled_product():
        statements = collect(func, For, BufferStore)
        assert statements and all(x.position is not None for x in statements), name
    lines = {x.position.line for x in statements}
    wanted = ("c = te.compute", "d = te.compute", "split(d.op", "cache_read", "split(k")
    assert lines == {line_with(scheduled_product, text) for text in wanted}
    assert {x.position.file for x in statements} == {__file__}


def test_the_printer_tells_lines_where_they_change():
    *_, (_, func) = scheduled_product()
    text = to_text(func, positions=True)
    assert f"# test_position.py:{line_with(scheduled_product, 'split(d.op')}" in text
    without = [line.split("  # test_position.py:")[0] for line in text.splitlines()]
    assert "\n".join(without) == str(func)


def test_positions_survive_pickling():
    *_, (_, func) = scheduled_product()
    again = pickle.loads(pickle.dumps(func.body))
    assert [x.position for x in collect(again, For)] == [x.position for x in collect(func, For)]


@te.hybrid.script
def running_sum(a):
    c = output_tensor(a.shape, "float32")  # noqa: F821
    total = 0.0
    for i in range(a.shape[0]):
        total = total + a[i]
        c[i] = total
    return c


def test_the_lines_of_a_hybrid_function_are_those_of_its_statements():
    a = te.placeholder((8,), name="a")
    out = running_sum(a)
    func = te.lower(te.create_schedule(out.op), [a, out])
    source = running_sum.__wrapped__
    lines = {x.position.line for x in collect(func, BufferStore)}
    assert lines == {line_with(source, text) for text in ("total = 0.0", "total = total", "c[i] = total")}
    assert [x.position.line for x in collect(func, For)] == [line_with(source, "for i in")]


def doubling_by_hand(ins, outs):
    ib = tir.ir_builder.create()
    a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    with ib.for_range(0, 8, name="i") as i:
        with ib.if_scope(i < 4):
            b[i] = a[i] * 2.0
        with ib.else_scope():
            ib.emit(tir.BufferStore(outs[0], a[i], (i,)))
    return ib.get()


def test_the_lines_of_an_ir_builder_are_those_that_call_it():
    a = te.placeholder((8,), name="A")
    out = te.extern((8,), [a], doubling_by_hand, name="B")
    _, func = next(te.lower_stages(te.create_schedule(out.op), [a, out]))
    assert [x.position.line for x in collect(func, For)] == [line_with(doubling_by_hand, "for_range")]
    assert [x.position.line for x in collect(func, BufferStore)] == [
        line_with(doubling_by_hand, text) for text in ("b[i] =", "ib.emit")
    ]
    assert [x.position.line for x in collect(func, IfThenElse)] == [line_with(doubling_by_hand, "else_scope")]


def beyond_the_end():
    a = te.placeholder((8,), name="A")
    return a, te.compute((8,), lambda i: a[i + 1], name="B")


def test_a_failing_bounds_check_tells_the_line():
    a, b = beyond_the_end()
    module = build(te.lower(te.create_schedule(b.op), [a, b], name="f", check_bounds=True))
    with pytest.raises(InputError, match=f"written at .*test_position.py:{line_with(beyond_the_end, 'te.compute')}"):
        module["f"](np.zeros(8, "float32"), np.zeros(8, "float32"))
