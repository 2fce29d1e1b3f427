"""double_buffer: the next part is made while this one is read, and the result stays."""

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.backend.build import build
from tilewright.tir.evaluate import interpret
from tilewright.tir.stmt import Allocate, AttrStmt, DeclBuffer
from tilewright.tir.transform.double_buffer import double_buffer
from tilewright.tir.verify import verify
from tilewright.tir.visitor import collect

a, c, t = tir.Buffer("a", [8, 4]), tir.Buffer("c", [8]), tir.Buffer("t", [4])
i, j = tir.Var("i"), tir.Var("j")
MAKE = tir.For(j, tir.const(0), tir.const(4), tir.ForKind.SERIAL, tir.BufferStore(t, a[i, j] * 2.0, (j,)))
USE = tir.BufferStore(c, t[0] + t[3], (i,))


def _loop(kind=tir.ForKind.SERIAL, body=None, extent=8):
    body = body or Allocate(t, tir.seq(AttrStmt("double_buffer", t, 1, MAKE), USE))
    return tir.PrimFunc("f", [a, c], tir.For(i, tir.const(0), tir.const(extent), kind, body))


def _run(func):
    verify(func)
    x = np.arange(32, dtype="float32").reshape(8, 4)
    y = np.zeros(8, "float32")
    interpret(func, x, y)
    np.testing.assert_array_equal(y, 2 * x[:, 0] + 2 * x[:, 3])


def test_before_and_after():
    func = double_buffer(_loop())
    assert str(func).splitlines()[1:] == [
        '    t = allocate(float32[2, 4], scope="global")',
        "    for j in range(4):",
        "        t[0, j] = a[0, j] * 2.0",
        "    for i in range(8):",
        "        if i + 1 < 8:",
        "            for j in range(4):",
        "                t[(i + 1) % 2, j] = a[i + 1, j] * 2.0",
        "        c[i] = t[i % 2, 0] + t[i % 2, 3]",
    ]
    _run(func)


def test_what_cannot_be_made_ahead_stays_single():
    u = tir.Buffer("u", [4])
    first = tir.For(j, tir.const(0), tir.const(4), tir.ForKind.SERIAL, tir.BufferStore(u, a[i, j] * 2.0, (j,)))
    then = tir.For(j, tir.const(0), tir.const(4), tir.ForKind.SERIAL, tir.BufferStore(t, u[j], (j,)))
    chained = Allocate(u, Allocate(t, tir.seq(first, AttrStmt("double_buffer", t, 1, then), USE)))
    for func in (_loop(tir.ForKind.PARALLEL), _loop(body=chained)):
        after = double_buffer(func)
        assert not collect(after, AttrStmt)
        assert all(x.buffer.shape[0].value == 4 for x in collect(after, Allocate))
        _run(after)


@pytest.mark.parametrize("size", [1, 5, 16])
def test_the_schedule_primitive_on_any_size(size):
    n = te.size_var("n")
    A = te.placeholder((n, 8), name="A")
    B = te.compute((n, 8), lambda x, y: A[x, y] + 1.0, name="B")
    C = te.compute((n, 8), lambda x, y: B[x, 7 - y] * 2.0, name="C")
    s = te.create_schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[B].compute_at(s[C], outer)
    s[B].double_buffer()
    func = te.lower(s, [A, C])
    assert any(x.buffer.name == "B" and x.buffer.constant_size() == 64 for x in collect(func, DeclBuffer))
    x = np.random.default_rng(0).standard_normal((size, 8)).astype("float32")
    y = np.zeros_like(x)
    build(func, threads=1)["main"](x, y)
    np.testing.assert_array_equal(y, (x[:, ::-1] + 1) * 2)
