"""Where a `te.compute` was written: kept through the schedule, told by errors, and no part of what is computed."""

import inspect

import pytest

from tilewright import te
from tilewright.errors import ScheduleError
from tilewright.tir.structural import structural_equal, structural_hash


def doubled():
    a = te.placeholder((8,), name="A")
    k = te.reduce_axis((0, 8), name="k")
    return a, te.compute((8,), lambda i: te.sum(a[i] * a[k], axis=k), name="B")


def position_of_doubled():
    lines, start = inspect.getsourcelines(doubled)
    return f"{__file__}:{start + next(n for n, line in enumerate(lines) if 'te.compute' in line)}"


def test_the_line_of_the_call_is_kept_by_caches_and_factors():
    _, b = doubled()
    assert b.op.position == position_of_doubled()
    s = te.create_schedule(b)
    local = s.cache_write(b, "local")
    factored = s.rfactor(local, local.op.reduce_axis[0])
    assert {s[t].op.position for t in (b, local, factored)} == {position_of_doubled()}


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
