"""Arithmetic, comparisons, selection and conversions of compiled code equal NumPy's, for each dtype, in vectors too."""

from __future__ import annotations

import operator
import re

import ml_dtypes
import numpy as np
import pytest

from tilewright.codegen.llvm import assembly, emit
from tilewright.support.dtype import DType
from tilewright.target import Target
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.stmt import BufferStore, For, ForKind, PrimFunc

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
LANES = [1, 16]


def sample(dtype: str, size: int = 64, seed: int = 0) -> np.ndarray:
    """Random values with the extremes of the type among them."""
    rng, kind = np.random.default_rng(seed), DType(dtype)
    if kind.is_bool:
        return rng.integers(0, 2, size).astype(bool)
    if kind.is_float:
        return (rng.standard_normal(size) * 8).astype(kind.numpy)
    low, high = kind.limits()
    values = rng.integers(low, high, size, dtype=kind.numpy, endpoint=True)
    values[:8] = [low, high, 0, 1, 2, 3, 5, 7]
    return values


def nonzero(dtype: str) -> np.ndarray:
    """Divisors: random, none 0 and none -1 (the smallest number divided by it overflows)."""
    x = sample(dtype, seed=1)
    return np.where((x == 0) | (x.astype(np.float64) == -1), np.ones(1, x.dtype), x)


def edges(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of numbers at the ends of the type and around zero, some twice."""
    low, high = DType(dtype).limits()
    values = np.array([low, low + 1, high, high - 1, 0, 1, 2, 3, 7, *([-1, -2, -3, -7] if low else [4, 5, 6, 8])])
    if high > 2**63:
        values = np.array([low, 1, high, high - 1, 2, 3, 7, 8], np.uint64)
    x, y = np.meshgrid(values.astype(DType(dtype).numpy), values.astype(DType(dtype).numpy))
    return np.resize(x, 176), np.resize(y, 176)  # whole vectors of 16 lanes


def exact_division(x: np.ndarray, y: np.ndarray, down: bool) -> tuple[np.ndarray, np.ndarray]:
    """Quotients and remainders by Python's integers, wrapped around; both are 0 where the divisor is."""

    def one(a: int, b: int) -> tuple[int, int]:
        q = a // b if b else 0
        q += not down and b != 0 and a % b != 0 and (a < 0) != (b < 0)
        return q, a - q * b if b else 0

    pairs = [one(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    bits = 8 * x.dtype.itemsize
    unsigned = [np.array([v % 2**bits for v in column], f"u{x.dtype.itemsize}") for column in zip(*pairs, strict=True)]
    return unsigned[0].view(x.dtype), unsigned[1].view(x.dtype)


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    return x.astype(DType(dtype).numpy)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", INTS + FLOATS)
def test_sums_and_products(elementwise, dtype, lanes):
    x, y = sample(dtype), sample(dtype, seed=1)
    with np.errstate(over="ignore"):
        for node, reference in ((e.Add, operator.add), (e.Sub, operator.sub), (e.Mul, operator.mul)):
            got = elementwise(node, x, y, lanes=lanes)
            np.testing.assert_array_equal(got, reference(x, y), str(node))
        np.testing.assert_array_equal(elementwise(e.Min, x, y, lanes=lanes), np.minimum(x, y))
        np.testing.assert_array_equal(elementwise(e.Max, x, y, lanes=lanes), np.maximum(x, y))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", INTS)
def test_integer_division_rounds_down_or_towards_zero(elementwise, dtype, lanes):
    x, y = sample(dtype), nonzero(dtype)
    quotient = x // y
    remainder = x - quotient * y
    np.testing.assert_array_equal(elementwise(e.FloorDiv, x, y, lanes=lanes), quotient)
    np.testing.assert_array_equal(elementwise(e.FloorMod, x, y, lanes=lanes), remainder)
    towards_zero = quotient + ((remainder != 0) & ((x < 0) != (y < 0))).astype(x.dtype)
    np.testing.assert_array_equal(elementwise(e.Div, x, y, lanes=lanes), towards_zero)
    np.testing.assert_array_equal(elementwise(e.Mod, x, y, lanes=lanes), x - towards_zero * y)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", INTS)
def test_division_by_zero_is_zero_and_the_smallest_by_minus_one_wraps(elementwise, dtype, lanes):
    x, y = edges(dtype)
    for down, nodes in ((True, (e.FloorDiv, e.FloorMod)), (False, (e.Div, e.Mod))):
        for node, exact in zip(nodes, exact_division(x, y, down), strict=True):
            np.testing.assert_array_equal(elementwise(node, x, y, lanes=lanes), exact, str(node))


@pytest.mark.parametrize("divisor", [0, -1])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_division_by_the_constants_that_fault(elementwise, dtype, divisor):
    x = edges(dtype)[0]
    y = np.full_like(x, divisor)
    for down, nodes in ((True, (e.FloorDiv, e.FloorMod)), (False, (e.Div, e.Mod))):
        for node, exact in zip(nodes, exact_division(x, y, down), strict=True):
            got = elementwise(lambda a, n=node: n(a, op.const(divisor, a.dtype)), x)
            np.testing.assert_array_equal(got, exact, str(node))


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 16, -4, -5])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_division_by_constants(elementwise, dtype, divisor):
    x = sample(dtype)
    by = np.asarray(divisor, x.dtype)
    got = elementwise(lambda a: e.FloorDiv(a, op.const(divisor, dtype)), x)
    np.testing.assert_array_equal(got, x // by)
    got = elementwise(lambda a: e.FloorMod(a, op.const(divisor, dtype)), x)
    np.testing.assert_array_equal(got, x - (x // by) * by)


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_division_and_remainder(elementwise, dtype):
    x, y = sample(dtype), sample(dtype, seed=2)
    np.testing.assert_array_equal(elementwise(e.Div, x, y), x / y)
    np.testing.assert_array_equal(elementwise(e.Mod, x, y), rounded(np.fmod(x.astype("f8"), y.astype("f8")), dtype))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, "bool"])
def test_comparisons_equal_numpys_nan_included(elementwise, dtype, lanes):
    x, y = sample(dtype), sample(dtype, seed=3)
    y[::3] = x[::3]
    if DType(dtype).is_float and dtype != "bfloat16":  # ml_dtypes warns when it compares NaN
        x[1], y[2] = np.nan, np.nan
    tests = {e.EQ: operator.eq, e.NE: operator.ne, e.LT: operator.lt, e.LE: operator.le, e.GT: operator.gt,
             e.GE: operator.ge}  # fmt: skip
    for node, reference in tests.items():
        np.testing.assert_array_equal(elementwise(node, x, y, lanes=lanes), reference(x, y), str(node))


@pytest.mark.parametrize("lanes", LANES)
def test_logic_and_select(elementwise, lanes):
    p, q = sample("bool"), sample("bool", seed=1)
    np.testing.assert_array_equal(elementwise(e.And, p, q, lanes=lanes), p & q)
    np.testing.assert_array_equal(elementwise(e.Or, p, q, lanes=lanes), p | q)
    np.testing.assert_array_equal(elementwise(e.Not, p, lanes=lanes), ~p)
    for dtype in ("float32", "bfloat16", "int8", "bool"):
        x, y = sample(dtype, seed=2), sample(dtype, seed=3)
        np.testing.assert_array_equal(elementwise(e.Select, p, x, y, lanes=lanes), np.where(p, x, y))


@pytest.mark.sample(12)
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("source", [*INTS, *FLOATS, "bool"])
def test_casts_between_all_types_equal_numpys(elementwise, source, lanes):
    x = sample(source)
    for target in [*INTS, *FLOATS, "bool"]:
        values = x
        if DType(source).is_float and DType(target).is_int:
            values = np.abs(x)
            values[values.astype("f8") > 100] = 1
        got = elementwise(lambda a, t=target: e.Cast(DType(t).with_lanes(a.dtype.lanes), a), values, lanes=lanes)
        wide = values.astype("f4") if DType(target).bits == 16 and DType(target).is_float else values
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got, wide.astype(DType(target).numpy), f"{source} to {target}")


def test_bfloat16_rounding_of_special_values(elementwise):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.00390625, 1.01171875, 3.4e38, 1e-40, -1e-45] * 2, "f4")
    got = elementwise(lambda a: e.Cast("bfloat16", a), x)
    np.testing.assert_array_equal(got.astype("f4"), x.astype(ml_dtypes.bfloat16).astype("f4"))
    np.testing.assert_array_equal(np.signbit(got.astype("f4")), np.signbit(x.astype(ml_dtypes.bfloat16).astype("f4")))


@pytest.mark.parametrize("lanes", [1, 3, 4, 8, 16, 32])
@pytest.mark.parametrize("dtype", FLOATS)
def test_extremum_is_nan_where_an_operand_is(elementwise, dtype, lanes):
    x, y = sample(dtype, 96), sample(dtype, 96, seed=1)
    x[::3], y[::5] = np.nan, np.nan
    wide = [v.astype("f8") for v in (x, y)]  # ml_dtypes warns when it compares NaN
    for node, reference in ((e.Min, np.minimum), (e.Max, np.maximum)):
        got = elementwise(node, x, y, lanes=lanes).astype("f8")
        np.testing.assert_array_equal(got, reference(*wide))
        for by_constant in (lambda a, n=node: n(a, op.const(3, a.dtype)), lambda a, n=node: n(op.const(3, a.dtype), a)):
            got = elementwise(by_constant, x, lanes=lanes).astype("f8")
            np.testing.assert_array_equal(got, reference(wide[0], 3.0))


@pytest.mark.parametrize(
    ("target", "instructions"),
    [
        ("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3", ("vmaxps", "vminps")),
        ("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4", ("vmaxps", "vminps")),
        ("llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=cortex-a72", ("fmax", "fmin")),
    ],
)
def test_limits_that_are_constants_cost_no_test_for_nan(target, instructions):
    x, y = Buffer("x", (64,), "float32"), Buffer("y", (64,), "float32")
    i = e.Var("i")
    position = (e.Ramp(i * 4, e.IntImm("int32", 1), 4),)
    value = op.minimum(op.maximum(e.BufferLoad(x, position), op.const(0.0, "float32x4")), op.const(6.0, "float32x4"))
    loop = For(i, e.IntImm("int32", 0), e.IntImm("int32", 16), ForKind.SERIAL, BufferStore(y, value, position))
    text = assembly(emit([PrimFunc("f", [x, y], loop)], Target(target)), Target(target))
    names = [line.split()[0] for line in text.splitlines() if line.startswith("\t") and line.strip()]
    assert all(name in names for name in instructions)
    assert not [name for name in names if re.match("vcmp|vblend|fcm|bif|bit|bsl", name)]


@pytest.mark.parametrize(
    "target",
    [
        "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=sapphirerapids",
        "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=neoverse-n1",
    ],
)
def test_a_product_rounded_to_a_half_is_not_fused_with_a_sum(target):
    x, y = Buffer("x", (64,), "float16"), Buffer("y", (64,), "float16")
    i, wide = e.Var("i"), "float32x8"
    position = (e.Ramp(i * 8, e.IntImm("int32", 1), 8),)
    value = e.Cast(wide, e.BufferLoad(x, position))
    product = e.Cast(wide, e.Cast("float16x8", value * value))
    store = BufferStore(y, e.Cast("float16x8", product + value), position)
    loop = For(i, e.IntImm("int32", 0), e.IntImm("int32", 8), ForKind.SERIAL, store)
    text = assembly(emit([PrimFunc("f", [x, y], loop)], Target(target)), Target(target))
    assert "mul" in text and not re.search(r"fmadd|fmla", text)


def test_product_and_sum_fuse_where_the_target_can(elementwise):
    if not Target("cpu").has_fma:
        pytest.skip("this processor has no fused multiply-add")
    x = np.full(16, 1 + 2**-12, "f4")
    exact = (x.astype("f8") * x - 1).astype("f4")
    np.testing.assert_array_equal(elementwise(lambda a: a * a + op.const(-1.0), x), exact)
    np.testing.assert_array_equal(elementwise(lambda a: a * a - op.const(1.0, a.dtype), x, lanes=16), exact)


@pytest.mark.parametrize("lanes", LANES)
def test_every_half_precision_number(elementwise, monkeypatch, lanes):
    """Converted in integers, as on a processor that cannot do it: all patterns, and numbers between any two."""
    Target("cpu"), Target.host()  # made before the field is hidden, and kept
    monkeypatch.setattr("tilewright.target.CpuTarget.converts_half", False)
    halves = np.arange(1 << 16, dtype="u2").view("f2")
    wide = elementwise(lambda a: e.Cast(DType("float32").with_lanes(a.dtype.lanes), a), halves, lanes=lanes)
    np.testing.assert_array_equal(wide, halves.astype("f4"))
    np.testing.assert_array_equal(np.signbit(wide), np.signbit(halves))
    positions = wide[np.isfinite(wide)].view("i4")
    middles = np.concatenate(
        [(positions + step).view("f4") for step in (-0x1001, -0x1000, -1, 0, 1, 0xFFF, 0x1000, 0x1001)]
    )
    tiny = np.float32([2**-24, 2**-25, 2**-26, 3 * 2**-25, 65519.996, 65520, 1e-40, np.inf, np.nan, 1e30] * 16)
    values = np.concatenate([middles, -middles, tiny, -tiny])
    values = values[: values.size // 16 * 16]
    got = elementwise(lambda a: e.Cast(DType("float16").with_lanes(a.dtype.lanes), a), values, lanes=lanes)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, values.astype("f2"))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(values))


def test_float_constants_keep_every_bit(elementwise):
    x = np.zeros(4, "f4")
    for value in (0.1, -0.0, np.inf, -np.inf, 1e-45, 3.4028234663852886e38):
        got = elementwise(lambda a, v=value: e.Select(e.LT(a, a), a, op.const(v, "float32")), x)
        assert got.tobytes() == np.full(4, value, "f4").tobytes()
    big = np.zeros(4, "u8")
    np.testing.assert_array_equal(elementwise(lambda a: a + op.const(2**64 - 1, "uint64"), big), big + (2**64 - 1))


def test_a_let_computes_its_value_once_for_all_uses(elementwise):
    v = e.Var("v", "float32")
    x = sample("float32")
    np.testing.assert_array_equal(elementwise(lambda a: e.Let(v, a * 2.0, v * v), x), (x * 2) * (x * 2))
