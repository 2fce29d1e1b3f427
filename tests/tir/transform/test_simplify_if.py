"""simplify_if: conditions are tested once, and faults stay guarded."""

import numpy as np

from tilewright import tir
from tilewright.tir.evaluate import interpret
from tilewright.tir.transform.simplify_if import simplify_if
from tilewright.tir.verify import verify

i, n, m = tir.Var("i"), tir.Var("n"), tir.Var("m")
a, b, flag = tir.Buffer("a", [8]), tir.Buffer("b", [8]), tir.Buffer("flag", [8], "int32")


def _func(body):
    return tir.PrimFunc("f", [n, m, flag, a, b], tir.For(i, tir.const(0), tir.const(8), tir.ForKind.SERIAL, body))


def _store(buffer, value):
    return tir.BufferStore(buffer, tir.const(value), (i,))


def _same(func):
    after = simplify_if(func)
    verify(after)
    for values in ((3, 5), (9, 9), (0, 2)):
        results = []
        for version in (func, after):
            flags, x, y = np.array([0, 1, 1, 0, 1, 0, 1, 1], "int32"), np.zeros(8, "float32"), np.zeros(8, "float32")
            interpret(version, *values, flags, x, y)
            results.append((flags, x, y))
        np.testing.assert_equal(results[0], results[1])
    return str(after).splitlines()[2:]


def test_before_and_after():
    both = tir.all(i < n, i < m)
    nested = tir.IfThenElse(i < n, tir.IfThenElse(i < m, _store(a, 1.0)))
    assert _same(_func(tir.seq(nested, tir.IfThenElse(both, _store(b, 2.0))))) == [
        "        if i < n and i < m:",
        "            a[i] = 1.0",
        "            b[i] = 2.0",
    ]


def test_branches_of_both_kinds_are_joined():
    first = tir.IfThenElse(i < n, _store(a, 1.0), _store(a, 2.0))
    second = tir.IfThenElse(i < n, _store(b, 3.0))
    assert _same(_func(tir.seq(first, second))) == [
        "        if i < n:",
        "            a[i] = 1.0",
        "            b[i] = 3.0",
        "        else:",
        "            a[i] = 2.0",
    ]


def test_a_condition_that_may_fault_stays_inside():
    load = tir.eq(flag[i + 1], 1)
    assert len(_same(_func(tir.IfThenElse(i < 7, tir.IfThenElse(load, _store(a, 1.0)))))) == 3


def test_a_condition_whose_memory_is_written_between_is_tested_again():
    test = tir.eq(flag[i], 1)
    clear = tir.BufferStore(flag, tir.const(0), (i,))
    assert len(_same(_func(tir.seq(tir.IfThenElse(test, clear), tir.IfThenElse(test, _store(a, 1.0)))))) == 4
