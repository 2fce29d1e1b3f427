"""The builder: what is written in `with` blocks is the loop IR one would write by hand, and it runs."""

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.backend.build import build
from tilewright.tir.evaluate import interpret
from tilewright.tir.verify import verify


def test_blocks_bindings_and_branches():
    n = tir.SizeVar("n")
    A, C = tir.Buffer("A", [n]), tir.Buffer("C", [n])
    ib = tir.ir_builder.create()
    a, c = ib.buffer_ptr(A), ib.buffer_ptr(C)
    total = ib.allocate("float32", (1,), "total", scope="local")
    total[0] = 0.0
    with ib.for_range(0, n, name="i") as i:
        twice = ib.let("twice", a[i] * 2.0)
        with ib.if_scope(i % 2 < 1):
            total[0] = total[0] + twice
        with ib.else_scope():
            total[0] = total[0] - twice
        c[i] = total[0]
    func = tir.PrimFunc("alternate", [A, C, n], ib.get())
    verify(func)
    x = np.arange(1, 8, dtype="float32")
    y = np.zeros_like(x)
    interpret(func, x, y, 7)
    np.testing.assert_array_equal(y, np.cumsum(2 * x * np.where(np.arange(7) % 2, -1, 1)))
    assert "twice = A[i] * 2.0" in str(func) and "else:" in str(func)


def test_while_assertions_flat_indices_and_extern():
    """Collatz steps of each number, in an extern operation."""
    A = te.placeholder((2, 3), "int32", name="A")

    def steps(ins, outs):
        ib = tir.ir_builder.create()
        source, count = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        x = ib.allocate("int32", 1, "x", scope="local")
        with ib.for_range(0, 6, name="i", kind="parallel") as i:
            x[0] = source[i]
            count[i] = 0
            with ib.while_loop(x[0] > 1):
                x[0] = tir.select(tir.eq(x[0] % 2, 0), x[0] // 2, x[0] * 3 + 1)
                count[i] = count[i] + 1
        return ib.get()

    C = te.extern((2, 3), [A], steps, name="C")
    a = np.array([[1, 2, 3], [7, 27, 6]], "int32")
    c = np.zeros_like(a)
    build(te.lower(te.create_schedule(C), [A, C]), threads=1)["main"](a, c)
    np.testing.assert_array_equal(c, [[0, 1, 7], [16, 111, 8]])


def test_misuse_is_refused():
    ib = tir.ir_builder.create()
    with pytest.raises(ValueError, match="else_scope must follow an if_scope"), ib.else_scope():
        pass
    with (
        pytest.raises(ValueError, match="a loop of kind 'spiral'; known are serial"),
        ib.for_range(0, 3, kind="spiral"),
    ):
        pass
    with pytest.raises(TypeError, match="takes a statement or a call"):
        ib.emit("x")
    with pytest.raises(TypeError, match="2 dimensions and is accessed with 3"):
        ib.allocate("float32", (2, 2), "b")[0, 0, 0]
    with pytest.raises(ValueError, match=r"get\(\) within an open block"), ib.for_range(0, 3):
        ib.get()


def test_a_sequence_is_counted_and_indexed() -> None:
    first, second = tir.Evaluate(tir.const(1)), tir.Evaluate(tir.const(2))
    body = tir.seq(first, second)
    assert len(body) == 2 and body[0] is first and body[-1] is second and list(body) == [first, second]
