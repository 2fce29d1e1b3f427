"""Expressions as classic programs write them: `==` in conditions, bits, operators on tensors and numbers."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("classic")


def _run(out: object, inputs: list[object], values: list[np.ndarray]) -> np.ndarray:
    import tvm
    from tvm import te

    result = tvm.nd.empty([int(d) for d in out.shape], str(out.dtype))  # type: ignore[attr-defined]
    schedule = te.create_schedule(out.op)  # type: ignore[attr-defined]
    tvm.build(schedule, [*inputs, out], "llvm")(*map(tvm.nd.array, values), result)
    return result.numpy()


def test_equality_in_conditions() -> None:
    import tvm
    from tvm import te

    n = 8
    a = te.placeholder((n,), "int32", name="a")
    x = np.arange(n, dtype="int32") - 3
    k = te.reduce_axis((0, n), "k")
    programs = {
        te.compute((n,), lambda i: te.if_then_else(i == 2, a[i], -1)): np.where(np.arange(n) == 2, x, -1),
        te.compute((n,), lambda i: tvm.tir.Select(a[i] != 0, a[i], 9)): np.where(x != 0, x, 9),
        te.compute((n,), lambda i: tvm.tir.Select(te.any(i == 0, i == n - 1), 1, a[i])): np.r_[1, x[1:-1], 1],
        te.compute((n,), lambda i: (a[i] == i - 3).astype("int32")): np.ones(n, "int32"),
        te.compute((1,), lambda _: te.sum(a[k], axis=k, where=(k == 7))): x[7:],
        te.compute((n,), lambda i: (a[i] >> 1) & 3 | i << 2): (x >> 1) & 3 | np.arange(n) << 2,
    }
    for out, expected in programs.items():
        np.testing.assert_array_equal(_run(out, [a], [x]), expected.astype("int32"))


def test_equality_in_the_ir_builder() -> None:
    import tvm
    from tvm import te

    def body(ins: list[object], outs: list[object]) -> object:
        ib = tvm.tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 6, "i") as i:
            with ib.if_scope(i == 2):
                b[i] = a[i] * 10
            with ib.else_scope():
                with ib.if_scope(tvm.tir.any(i != 4, a[i] == 5)):
                    b[i] = a[i]
                with ib.else_scope():
                    b[i] = -1
        return ib.get()

    a = te.placeholder((6,), "int32", name="a")
    out = te.extern((6,), [a], body, dtype="int32")
    np.testing.assert_array_equal(_run(out, [a], [np.arange(6, dtype="int32")]), [0, 1, 20, 3, -1, 5])


def test_tensors_and_numbers_by_topi() -> None:
    import tvm
    from tvm import te, topi

    a, b = te.placeholder((2, 3), name="a"), te.placeholder((3,), name="b")
    x, y = np.arange(6, dtype="float32").reshape(2, 3) + 1, np.array([4, 2, 8], "float32")
    programs = {
        (a + b) * 2 - b / a: (x + y) * 2 - y / x,
        topi.divide(topi.add(a, 1.0), b): (x + 1) / y,
        topi.power(a, 2.0): x**2,
        topi.maximum(2.5, a): np.maximum(2.5, x),
        topi.subtract(10, -a): 10 + x,
    }
    for out, expected in programs.items():
        np.testing.assert_allclose(_run(out, [a, b], [x, y]), expected, rtol=1e-6)
    e = te.var("e", "float32")
    assert topi.divide(e, 2.0) is e / 2.0 and isinstance(topi.add(e, 1), tvm.tir.Add)
    assert topi.left_shift(te.var("n"), 2).dtype == "int32"


def test_dimensions_compare_with_numbers() -> None:
    from tvm import te

    a = te.placeholder((4, 1024 / 32), name="a")
    assert a.shape[0] == 4 and a.shape[1] == 32 and tuple(a.shape) == (4, 32) and a.shape[0] != 5
    n = te.var("n")
    assert n == n and n != te.var("n") and a.shape[0] in (1, 4)
