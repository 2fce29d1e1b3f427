"""Tensorize: an instruction (or a routine) that computes a matrix-vector product, put in place of loops that do.

    python examples/te_tensorize.py

The intrinsic is declared by the small computation it does. The compiler checks that the loops it replaces do the same
and says what differs where they do not.
"""

from __future__ import annotations

import numpy as np

from tilewright import build, te, tir
from tilewright.backend.cpu.schedule.dot_intrin import dot_16x1x16_uint8_int8_int32
from tilewright.errors import ScheduleError

ROWS, DEPTH = 8, 16


def gemv() -> te.TensorIntrin:
    """c[i] += sum over k of a[i, k] b[k], for 8 rows and 16 terms, as 8 vector multiplications."""
    a = te.placeholder((ROWS, DEPTH), name="a")
    b = te.placeholder((DEPTH,), name="b")
    k = te.reduce_axis((0, DEPTH), "k")
    c = te.compute((ROWS,), lambda i: te.sum(a[i, k] * b[k], axis=k), name="c")
    stride = te.var("stride")  # of the rows of a, which are part of a larger matrix
    buffers = {a: te.decl_buffer(a.shape, name="a", strides=[stride, 1])}

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tuple[None, tir.Stmt, tir.Stmt]:
        (matrix, vector), (result,) = ins, outs
        whole = tir.Ramp(tir.const(0), tir.const(1), DEPTH)

        def row(i: int) -> tir.Stmt:
            product = tir.BufferLoad(matrix, (tir.const(i), whole)) * tir.BufferLoad(vector, (whole,))
            total = tir.call_intrin("float32", "vector_reduce_add", product)
            return tir.BufferStore(result, result[i] + total, (tir.const(i),))

        reset = tir.seq(*[tir.BufferStore(result, tir.const(0.0), (tir.const(i),)) for i in range(ROWS)])
        return None, reset, tir.seq(*[row(i) for i in range(ROWS)])

    return te.decl_tensor_intrin(c.op, statements, name="gemv", binds=buffers)


def bytes_by_bytes() -> None:
    """uint8 [6, 64] times int8 [32, 64], weights packed [2, 16, 16, 4] so that four inputs of a unit are neighbours.

    The innermost loops become one instruction for 64 products where the processor has AVX-512 VNNI.
    """
    a, w = te.placeholder((6, 64), "uint8", name="A"), te.placeholder((2, 16, 16, 4), "int8", name="W")
    group, k = te.reduce_axis((0, 16), "group"), te.reduce_axis((0, 4), "k")

    def sums(i: te.IterVar, panel: te.IterVar, unit: te.IterVar) -> te.Tensor:
        product = a[i, group * 4 + k].astype("int32") * w[panel, group, unit, k].astype("int32")
        return te.sum(product, axis=[group, k])

    c = te.compute((6, 2, 16), sums, name="C")
    s = te.create_schedule(c)
    i, panel, unit = s[c].op.axis
    s[c].reorder(panel, group, i, unit, k)
    s[c].tensorize(unit, dot_16x1x16_uint8_int8_int32())
    rng = np.random.default_rng(0)
    data, weight = rng.integers(0, 256, (6, 64)).astype("uint8"), rng.integers(-128, 128, (32, 64)).astype("int8")
    packed = np.ascontiguousarray(weight.reshape(2, 16, 16, 4).transpose(0, 2, 1, 3))
    result = np.zeros((6, 2, 16), "int32")
    build(te.lower(s, [a, w, c]))["main"](data, packed, result)
    np.testing.assert_array_equal(result.reshape(6, 32), data.astype("int32") @ weight.T.astype("int32"))
    print("the dot products of bytes agree with NumPy")


def main() -> None:
    """A matrix-vector product of 64 x 128 in blocks of the intrinsic, a computation that it does not fit, and bytes."""
    a, b = te.placeholder((64, 128), name="A"), te.placeholder((128,), name="B")
    k = te.reduce_axis((0, 128), "k")
    c = te.compute((64,), lambda i: te.sum(a[i, k] * b[k], axis=k), name="C")
    s = te.create_schedule(c)
    i_outer, i_inner = s[c].split(c.op.axis[0], factor=ROWS)
    k_outer, k_inner = s[c].split(k, factor=DEPTH)
    s[c].reorder(i_outer, k_outer, i_inner, k_inner)
    s[c].tensorize(i_inner, gemv())
    print(te.schedule_to_tir(s, [a, b, c]))
    rng = np.random.default_rng(0)
    matrix, vector = (rng.standard_normal(n).astype("float32") for n in ((64, 128), (128,)))
    result = np.zeros(64, "float32")
    build(te.lower(s, [a, b, c]))["main"](matrix, vector, result)
    np.testing.assert_allclose(result, matrix @ vector, rtol=1e-4, atol=1e-4)
    print("the tensorized product agrees with NumPy")

    k = te.reduce_axis((0, 128), "k")
    d = te.compute((64,), lambda i: te.sum(a[i, k] + b[k], axis=k), name="D")
    s = te.create_schedule(d)
    i_outer, i_inner = s[d].split(d.op.axis[0], factor=ROWS)
    k_outer, k_inner = s[d].split(k, factor=DEPTH)
    s[d].reorder(i_outer, k_outer, i_inner, k_inner)
    s[d].tensorize(i_inner, gemv())
    try:
        te.lower(s, [a, b, d])
    except ScheduleError as error:
        print(f"refused: {error}")
    bytes_by_bytes()


if __name__ == "__main__":
    main()
