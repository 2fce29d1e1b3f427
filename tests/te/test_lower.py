"""The lowering pipeline: its stages are named, and what comes out runs."""

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.backend.build import build


def test_stages_are_named_and_printable():
    A = te.placeholder((16,), name="A")
    C = te.compute((16,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C)
    s[C].vectorize(C.op.axis[0])
    stages = dict(te.lower_stages(s, [A, C], "plus_one"))
    assert next(iter(stages)) == "schedule_to_tir"
    assert {"simplify", "vectorize_loop", "unroll_loop", "lower_parallel", "flatten_buffers"} <= set(stages)
    assert all(func.name == "plus_one" and "C" in str(func) for func in stages.values())


def test_lower_gives_the_last_stage_with_flat_buffers():
    A = te.placeholder((4, 8), name="A")
    C = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="C")
    func = te.lower(te.create_schedule(C), [A, C], "f")
    assert [len(p.shape) for p in func.params] == [1, 1]


def test_a_convolution_with_local_accumulators_runs():
    block, size, channels = 8, 7, 16
    X = te.placeholder((1, channels // block, size, size, block), name="X")
    W = te.placeholder((channels // block, channels // block, 3, 3, block, block), name="W")
    P = te.compute(
        (1, channels // block, size + 2, size + 2, block),
        lambda n, c, h, w, b: tir.if_then_else(
            tir.all(h >= 1, h < size + 1, w >= 1, w < size + 1), X[n, c, h - 1, w - 1, b], 0.0
        ),
        name="P",
    )
    ic, kh, kw = te.reduce_axis((0, channels), "ic"), te.reduce_axis((0, 3), "kh"), te.reduce_axis((0, 3), "kw")
    C = te.compute(
        X.shape,
        lambda n, c, h, w, b: te.sum(
            P[n, ic // block, h + kh, w + kw, ic % block] * W[c, ic // block, kh, kw, ic % block, b], axis=[ic, kh, kw]
        ),
        name="C",
    )
    R = te.compute(C.shape, lambda *i: tir.maximum(C(*i), 0.0), name="R")
    s = te.create_schedule(R)
    n, c, h, w, b = R.op.axis
    w_outer, _w_inner = s[R].split(w, factor=4)
    s[R].parallel(s[R].fuse(n, c, h))
    s[R].vectorize(b)
    s[C].set_scope("local")
    s[C].compute_at(s[R], w_outer)
    n, c, h, w, b = C.op.axis
    i_outer, i_inner = s[C].split(ic, factor=block)
    s[C].reorder(i_outer, kh, kw, i_inner, n, c, h, w, b)
    s[C].unroll(w)
    s[C].vectorize(b)
    rng = np.random.default_rng(0)
    x, wt = (rng.standard_normal([d.value for d in t.shape]).astype("float32") for t in (X, W))
    out = np.full(x.shape, np.nan, "float32")
    build(te.lower(s, [X, W, R]), threads=1)["main"](x, wt, out)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    want = np.maximum(np.einsum("nihwayx,ciyxab->nchwb", windows, wt), 0)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_parallel_stages_wait_for_each_other(threads):
    A = te.placeholder((64, 33), name="A")
    P = te.compute(A.shape, lambda i, j: A[i, j] + 1.0, name="P")
    C = te.compute(A.shape, lambda i, j: P[63 - i, j] * 2.0, name="C")
    s = te.create_schedule(C)
    for T in (P, C):
        s[T].parallel(T.op.axis[0])
    a = np.random.default_rng(0).standard_normal((64, 33)).astype("float32")
    c = np.zeros_like(a)
    build(te.lower(s, [A, C]), threads=threads)["main"](a, c)
    np.testing.assert_array_equal(c, (a[::-1] + 1) * 2)


def test_a_long_chain_of_inlined_stages_lowers():
    A = te.placeholder((8,), "int32", name="A")
    T, chain = A, []
    for n in range(300):
        T = te.compute((8,), lambda i, T=T: T[i] * 3 + 1, name=f"T{n}")
        chain.append(T)
    s = te.create_schedule(T)
    for tensor in chain[:-1]:
        s[tensor].compute_inline()
    a, out, want = np.arange(8, dtype="int32"), np.zeros(8, "int32"), np.arange(8, dtype="int64")
    for _ in range(300):
        want = (want * 3 + 1) % 2**32
    build(te.lower(s, [A, T]), threads=1)["main"](a, out)
    np.testing.assert_array_equal(out, want.astype("uint32").astype("int32"))
