"""narrow_index: 32 bits where they are enough, 64 where they are not."""

import numpy as np

from tilewright import te, tir
from tilewright.tir.evaluate import interpret
from tilewright.tir.transform.narrow_index import narrow_index
from tilewright.tir.verify import verify

i = tir.Var("i", "int64")


def _wide(value):
    return tir.const(value, "int64")


def _loop(extent, buffer, index):
    return tir.PrimFunc(
        "f",
        [buffer],
        tir.For(i, _wide(0), extent, tir.ForKind.SERIAL, tir.BufferStore(buffer, tir.const(1.0), (index,))),
    )


def test_before_and_after():
    c = tir.Buffer("c", [16])
    func = _loop(_wide(8), c, i * 2)
    assert "for i in range(int64(0), int64(8))" in str(func) or "int64" in str(func)
    after = narrow_index(func)
    verify(after)
    assert "int64" not in str(after)
    result = np.zeros(16, "float32")
    interpret(after, result)
    np.testing.assert_array_equal(result, np.arange(16) % 2 == 0)


def test_what_may_not_fit_stays_wide():
    c = tir.Buffer("c", [_wide(2**33)])
    after = narrow_index(_loop(_wide(8), c, i * 2**30))
    verify(after)
    assert "c[int64(" in str(after)
    n = tir.Var("n", "int64")
    symbolic = tir.PrimFunc("f", [c, n], _loop(n, c, i).body)
    assert str(narrow_index(symbolic)) == str(symbolic)


def test_a_schedule_with_wide_axes():
    A = te.placeholder((_wide(6), _wide(7)), name="A")
    k = te.reduce_axis((_wide(0), _wide(7)), "k")
    C = te.compute((_wide(6),), lambda r: te.sum(tir.if_then_else(k > r, A[r, k], 0.0), axis=k), name="C")
    s = te.create_schedule(C)
    s[C].split(C.op.axis[0], factor=4)
    func = te.schedule_to_tir(s, [A, C])
    after = narrow_index(func)
    verify(after)
    assert "int64" in str(func.body) and "int64" not in str(after.body)
    a, c = np.random.default_rng(0).standard_normal((6, 7)).astype("float32"), np.zeros(6, "float32")
    interpret(after, a, c)
    np.testing.assert_allclose(c, np.where(np.arange(7) > np.arange(6)[:, None], a, 0).sum(1), rtol=1e-5, atol=1e-5)
