"""inject_prefetch: the lines of the next iterations' part are asked for, and nothing else changes."""

import numpy as np

from tilewright import te, tir
from tilewright.codegen.build import build
from tilewright.tir.expr import BufferLoad, Call
from tilewright.tir.stmt import AttrStmt
from tilewright.tir.transform.inject_prefetch import inject_prefetch
from tilewright.tir.verify import verify
from tilewright.tir.visitor import collect


def _rows(inner):
    """c[i, …] = a[i, …], the body of the outer loop under the attribute."""
    a, c = tir.Buffer("a", [8, 32]), tir.Buffer("c", [8, 32])
    i = tir.Var("i")
    body = AttrStmt("prefetch", a, 2, inner(a, c, i))
    return tir.PrimFunc("f", [a, c], tir.For(i, tir.const(0), tir.const(8), tir.ForKind.SERIAL, body))


def _copy(a, c, i):
    j = tir.Var("j")
    return tir.For(j, tir.const(0), tir.const(32), tir.ForKind.SERIAL, tir.BufferStore(c, a[i, j], (i, j)))


def test_before_and_after():
    func = inject_prefetch(_rows(_copy))
    verify(func)
    assert str(func).splitlines()[1:] == [
        "    for i in range(8):",
        "        for line in range(2):",
        "            prefetch(a[i + 2, line * 16])",
        "        for j in range(32):",
        "            c[i, j] = a[i, j]",
    ]


def test_a_part_that_is_not_known_is_not_asked_for():
    index = tir.Buffer("index", [32], "int32")

    def gather(a, c, i):
        j = tir.Var("j")
        load = BufferLoad(a, (i, index[j]))
        return tir.For(j, tir.const(0), tir.const(32), tir.ForKind.SERIAL, tir.BufferStore(c, load, (i, j)))

    func = inject_prefetch(_rows(gather))
    assert not [x for x in collect(func, Call) if x.op == "prefetch"]
    assert not collect(func, AttrStmt)


def test_the_schedule_primitive_prefetches_and_the_result_stays():
    A = te.placeholder((64, 40), name="A")
    C = (
        te.compute((64,), lambda i: te.sum(A[i, k] * 2.0, axis=k), name="C")
        if (k := te.reduce_axis((0, 40), "k"))
        else None
    )
    s = te.create_schedule(C)
    s[C].prefetch(A, C.op.axis[0], 4)
    func = te.lower(s, [A, C])
    calls = [x for x in collect(func, Call) if x.op == "prefetch"]
    assert len(calls) == 1 and "160" in repr(calls[0])
    a = np.random.default_rng(0).standard_normal((64, 40)).astype("float32")
    c = np.zeros(64, "float32")
    build(func, threads=1)["main"](a, c)
    np.testing.assert_allclose(c, (a * 2).sum(1), rtol=1e-4, atol=1e-4)
