"""C99: what the C compiler makes of it agrees with NumPy and with LLVM."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.source.programs import require_target
from tilewright import te, tir
from tilewright.backend import build
from tilewright.codegen.source import emit_c
from tilewright.errors import InputError
from tilewright.support.dtype import DType
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Var
from tilewright.tir.stmt import AssertStmt, BufferStore, For, ForKind, PrimFunc
from tilewright.tir.transform import pipeline
from tilewright.tir.transform.lower_parallel import lower_parallel
from tilewright.topi.reference.math import trunc_divide, trunc_mod


def elementwise(function, *arrays, target="c"):
    """`function` of the elements, computed by a build for `target`."""
    inputs = [te.placeholder(x.shape, str(x.dtype), f"x{i}") for i, x in enumerate(arrays)]
    out = te.compute(arrays[0].shape, lambda *i: function(*[x(*i) for x in inputs]), name="y")
    s = te.create_schedule(out.op)
    made = np.zeros(arrays[0].shape, out.dtype)
    build(te.lower(s, [*inputs, out], name="f"), require_target(target))["f"](*arrays, made)
    return made


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32"])
def test_integer_division_rounds_down(dtype):
    rng = np.random.default_rng(3)
    low = 0 if dtype.startswith("u") else -100
    a, b = rng.integers(low, 100, 500).astype(dtype), rng.integers(low, 100, 500).astype(dtype)
    b[b == 0] = 7
    np.testing.assert_array_equal(elementwise(tir.floordiv, a, b), a // b)
    np.testing.assert_array_equal(elementwise(tir.floormod, a, b), a % b)
    np.testing.assert_array_equal(elementwise(lambda x, y: x * y + x, a, b), a * b + a)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint64"])
def test_division_by_zero_is_zero_and_the_smallest_by_minus_one_wraps(dtype):
    low, high = DType(dtype).limits()
    ends = [low, low + 1, high, 0, 1, 2, *([-1, -3] if low else [5, 6])]
    values = np.array([np.dtype(dtype).type(end) for end in ends])
    a, b = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(elementwise(tir.floordiv, a, b), a // b)
        np.testing.assert_array_equal(elementwise(tir.floormod, a, b), a % b)
    np.testing.assert_array_equal(elementwise(tir.truncdiv, a, b), trunc_divide(a, b))
    np.testing.assert_array_equal(elementwise(tir.truncmod, a, b), trunc_mod(a, b))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_extremum_is_nan_where_an_operand_is(dtype):
    a, b = (np.random.default_rng(seed).standard_normal(60).astype(dtype) for seed in (1, 2))
    a[::3], b[::5] = np.nan, np.nan
    half = np.asarray(0.5, dtype)
    for function, reference in ((tir.maximum, np.maximum), (tir.minimum, np.minimum)):
        np.testing.assert_array_equal(elementwise(function, a, b), reference(a, b))
        np.testing.assert_array_equal(elementwise(lambda x, f=function: f(x, half.item()), a), reference(a, half))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_round_as_the_reference_does(dtype):
    import ml_dtypes

    kind = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    x = np.concatenate(
        [np.random.default_rng(5).standard_normal(2000) * scale for scale in (1e-8, 1e-6, 1e-3, 1.0, 3e4, 1e6)]
        + [[0.0, -0.0, np.inf, -np.inf, 65504.0, 65520.0, 65519.0, 5.9e-8, 2.9e-8]]
    ).astype("float32")
    with np.errstate(over="ignore"):
        expected = x.astype(kind)
    np.testing.assert_array_equal(elementwise(lambda v: v.astype(dtype), x).view("uint16"), expected.view("uint16"))
    every = np.arange(65536, dtype="uint16").view(kind)
    every = every[~np.isnan(every.astype("float32"))]
    np.testing.assert_array_equal(elementwise(lambda v: v.astype("float32"), every), every.astype("float32"))


def test_math_agrees_with_llvm():
    x = np.random.default_rng(7).standard_normal(300).astype("float32")
    for name in ("exp", "tanh", "sigmoid", "erf", "sqrt", "floor", "round", "cos"):
        function = getattr(tir, name)
        argument = np.abs(x) if name == "sqrt" else x
        ours, theirs = elementwise(function, argument), elementwise(function, argument, target="cpu")
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7, err_msg=name)


def test_vectors_and_workers():
    n = te.size_var("n")
    a, b = te.placeholder((n, 64), name="A"), te.placeholder((64, 32), name="B")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((n, 32), lambda i, j: te.sum(a(i, k) * b(k, j), axis=k), name="C")
    d = te.compute((n, 32), lambda i, j: tir.maximum(c(i, j), 0.0), name="D")
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(d.op.axis[0], factor=8)
    s[c].compute_at(s[d], outer)
    s[d].parallel(outer)
    s[d].vectorize(d.op.axis[1])
    module = build(te.lower(s, [a, b, d], name="f"), require_target("c"), threads=2)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((37, 64)).astype("float32"), rng.standard_normal((64, 32)).astype("float32")
    out = np.zeros((37, 32), "float32")
    module["f"](x, y, out)
    np.testing.assert_allclose(out, np.maximum(x @ y, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh", "erf"])
def test_functions_of_vectors_keep_their_vectors(name):
    """Choices and bits of floats have a text for vectors: no loop over lanes, and the numbers of LLVM's code."""
    x = np.concatenate([np.linspace(-120, 120, 1000), [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 16, -16]])
    x = x.astype("float32")
    given = te.placeholder(x.shape, "float32", "x")
    out = te.compute(x.shape, lambda i: getattr(tir, name)(given[i]), name="y")
    s = te.create_schedule(out.op)
    _, lane = s[out].split(out.op.axis[0], factor=8)
    s[out].vectorize(lane)
    func, found = te.lower(s, [given, out], name="f"), {}
    assert "int32_t lane" not in emit_c([pipeline.result(pipeline.C.code, func, None)]).text
    for target in ("c", "cpu"):
        found[target] = np.zeros_like(x)
        build(func, require_target(target))["f"](x, found[target])
    np.testing.assert_allclose(found["c"], found["cpu"], rtol=1e-6, atol=1e-7)


def test_long_arithmetic_of_a_tile_is_written_once():
    """The sums of a tile, in registers, go through one loop, and come out as NumPy's."""
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((6, 5), "float32"), rng.standard_normal((5, 8), "float32")
    a, b = te.placeholder(x.shape, "float32", "a"), te.placeholder(w.shape, "float32", "b")
    k = te.reduce_axis((0, 5), "k")
    total = te.compute((6, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="total")
    out = te.compute((6, 8), lambda i, j: total[i, j] * tir.sigmoid(total[i, j]), name="y")
    s = te.create_schedule(out.op)
    tiles, row = s[out].split(out.op.axis[0], factor=6)
    s[out].unroll(row)
    s[out].vectorize(out.op.axis[1])
    s[total].set_scope("local")
    s[total].compute_at(s[out], tiles)
    s[total].reorder(*s[total].op.reduce_axis, *s[total].op.axis)
    s[total].unroll(s[total].op.axis[0])
    s[total].vectorize(s[total].op.axis[1])
    func, made = te.lower(s, [a, b, out], name="f"), np.zeros((6, 8), "float32")
    text = emit_c([pipeline.result(pipeline.C.code, func, None)]).text
    assert text.count("1.2582912e+07f") == 1  # what rounds to whole powers of 2
    build(func, require_target("c"))["f"](x, w, made)
    np.testing.assert_allclose(made, x @ w / (1 + np.exp(-(x @ w))), rtol=1e-5, atol=1e-6)


def test_lanes_of_float64_are_taken_apart():
    """An exponential of float64 shuffles lanes, one at a time."""
    x = np.linspace(-5, 5, 16)
    given = te.placeholder(x.shape, "float64", "x")
    out = te.compute(x.shape, lambda i: tir.exp(given[i]), name="y")
    s = te.create_schedule(out.op)
    _, lane = s[out].split(out.op.axis[0], factor=8)
    s[out].vectorize(lane)
    y = np.zeros_like(x)
    build(te.lower(s, [given, out], name="f"), require_target("c"))["f"](x, y)
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-15)


def test_assertions_stop_with_their_message():
    x, i = Buffer("x", [4], "int32"), Var("i")
    store = BufferStore(x, BufferLoad(x, (i,)) + 1, (i,))
    check = AssertStmt(BufferLoad(x, (i,)) < 9, "x must be below 9", store)
    loop = For(i, tir.const(0), tir.const(4), ForKind.SERIAL, check)
    module = build(lower_parallel(PrimFunc("f", [x], loop)), require_target("c"))
    values = np.array([1, 2, 9, 4], "int32")
    with pytest.raises(InputError, match="f: x must be below 9"):
        module["f"](values)
    np.testing.assert_array_equal(values, [2, 3, 9, 4])


def test_a_kernel_in_c_is_emitted_as_recorded(check_golden):
    a = te.placeholder((16,), name="float")
    b = te.compute((16,), lambda i: tir.if_then_else(i > 2, a(i - 2), 0.5) + tir.cast("float32", i // 3), name="B")
    s = te.create_schedule(b.op)
    text = emit_c([te.lower(s, [a, b], name="f")]).text
    check_golden("source_c.txt", text[text.index("int32_t f(") :])
