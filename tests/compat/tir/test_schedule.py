"""`tvm.tir.Schedule`, `te.create_prim_func` and functions of `tvm.script`, each compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.compat.tir.script import ir_module
from tilewright.compat.tir.script import words as T
from tilewright.errors import InputError, ScheduleError, UnsupportedError


@ir_module
class Product:
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        A = T.match_buffer(a, (24, 16), "float32")
        B = T.match_buffer(b, (16, 32), "float32")
        C = T.match_buffer(c, (24, 32), "float32")
        D = T.alloc_buffer((24, 32), "float32")
        for i, j, k in T.grid(24, 32, 16):
            with T.block("product"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    D[vi, vj] = T.float32(0)
                D[vi, vj] = D[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(24, 32):
            with T.block("relu"):
                vi = T.axis.spatial(24, i)
                vj = T.axis.spatial(32, j)
                C[vi, vj] = T.max(D[vi, vj], T.float32(0))


@T.prim_func
def halves(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in T.parallel(16):
        if i < 8 and i != 3:
            B[i] = A[i] + T.float32(1)
        else:
            B[i] = A[i] * T.float32(2)


@T.prim_func
def summed(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        for k in range(4):
            with T.block("sum"):
                vi = T.axis.spatial(8, i + 0)
                vk = T.axis.reduce(4, k)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] += A[vi, vk]


@T.prim_func
def unread(A: T.Buffer((8,), "float32")):
    T.unknown_word(A)


def check(mod: object, shape: tuple[int, int, int] = (24, 16, 32)) -> None:
    """The module is the product, its negative elements 0."""
    import tvm

    rows, inner, columns = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype("float32") for s in ((rows, inner), (inner, columns)))
    c = tvm.nd.array(np.zeros((rows, columns), "float32"))
    tvm.build(mod, target="llvm")(tvm.nd.array(a), tvm.nd.array(b), c)
    np.testing.assert_allclose(c.numpy(), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4)


def run(func: object, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    import tvm

    out = tvm.nd.array(np.zeros(shape, "float32"))
    tvm.build(func, target="llvm")(tvm.nd.array(x), out)
    return out.numpy()


def test_loops_are_split_reordered_and_marked() -> None:
    import tvm

    check(Product)
    s = tvm.tir.Schedule(Product)
    i, j, k = s.get_loops(s.get_block("product"))
    i0, i1 = s.split(i, factors=[None, 8])
    j0, j1, j2 = s.split(j, factors=[2, None, 4])
    k0, k1 = s.split(k, factors=[4, 4])
    s.reorder(i0, j0, j1, k0, i1, k1, j2)
    s.vectorize(j2)
    s.unroll(k1)
    s.parallel(i0)
    assert [loop.axis.iter_type for loop in s.get_loops("product")][3] is k.axis.iter_type
    check(s.mod)
    outer = s.fuse(*s.get_loops("relu"))
    s.parallel(outer)
    check(s.mod)


def test_a_consumer_moves_into_its_producer() -> None:
    import tvm

    s = tvm.tir.Schedule(Product)
    i, j, _ = s.get_loops("product")
    i0, i1 = s.split(i, [None, 5])  # which does not divide
    j0, _ = s.split(j, [None, 8])
    s.reorder(i0, j0, i1)
    s.reverse_compute_at(s.get_block("relu"), j0)
    s.parallel(i0)
    assert len(s.get_loops("relu")) == 4
    check(s.mod)


def test_blocks_are_placed_cached_and_factored() -> None:
    import tvm

    s = tvm.tir.Schedule(Product)
    s.compute_at(s.get_block("product"), s.get_loops("relu")[0])
    check(s.mod)
    s = tvm.tir.Schedule(Product)
    written = s.cache_write("product", 0, "local")
    read = s.cache_read("product", 0, "global")
    _, inner = s.split(s.get_loops("product")[2], [None, 4])
    s.decompose_reduction("product", inner)
    part = s.rfactor(inner, 0)
    assert (written.name, read.name, part.name) == ("product_local", "A_global", "product.local_rf")
    check(s.mod)
    assert [block.name for block in s.get_consumers(written)] == ["relu"]


def test_functions_of_tensors() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((24, 16), name="a")
    b = te.placeholder((16, 32), name="b")
    k = te.reduce_axis((0, 16), "k")
    c = te.compute((24, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    d = te.compute((24, 32), lambda i, j: te.max(c[i, j], 0.0), name="c")
    func = te.create_prim_func([a, b, d])
    s = tvm.tir.Schedule(tvm.IRModule({"main": func}))
    assert [block.name for block in s.get_producers(s.get_block("c_1"))] == ["c"]
    check(s.mod)
    with pytest.raises(UnsupportedError, match="reduction"):
        s.reverse_compute_inline("c_1")
    with pytest.raises(InputError, match="there are c, c_1"):
        s.get_block("d")
    s.split(s.get_loops("c")[0], [None, 4])
    with pytest.raises(ScheduleError, match="before its loops"):
        s.cache_write("c", 0, "local")


def test_scripts_that_are_no_tensors_are_loops() -> None:
    import tvm

    x = np.arange(16, dtype="float32")
    low = (x < 8) & (x != 3)
    np.testing.assert_array_equal(run(halves, x, (16,)), np.where(low, x + 1, x * 2))
    m = np.arange(32, dtype="float32").reshape(8, 4)
    np.testing.assert_allclose(run(summed, m, (8,)), m.sum(1))
    with pytest.raises(UnsupportedError, match="create_prim_func"):
        tvm.tir.Schedule(halves)
    with pytest.raises(UnsupportedError, match="unknown_word"):
        unread()
