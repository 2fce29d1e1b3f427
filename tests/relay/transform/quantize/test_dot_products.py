"""Int32 products of bytes become dot products, and stay the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import module, op_names
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.op import qnn
from tilewright.relay.transform.quantize.dot_products import dot_products
from tilewright.relay.transform.simplify.expand_operators import expand_operators
from tilewright.relay.transform.simplify.make import is_call
from tilewright.target import Target

RNG = np.random.default_rng(8)
X86, ARM = (
    Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4"),
    Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1"),
)
HASWELL = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")


def _bytes(dtype: str, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def _check(expr: relay.Expr, *inputs: np.ndarray, run: bool = True) -> list[str]:
    """The rewritten graph has the same integers, interpreted for three instruction sets and compiled for those here."""
    mod = expand_operators(module(expr))
    (expected,) = relay.interpret(mod, list(inputs))
    for target in (X86, ARM, HASWELL):
        after = dot_products(mod, backend_of(target))
        np.testing.assert_array_equal(relay.interpret(after, list(inputs))[0], expected)
    for target in filter(lambda target: run and target.is_host, (Target("cpu"), HASWELL)):
        executable = tw.compile(module(expr), target=target, cache=False)
        np.testing.assert_array_equal(np.asarray(executable(*inputs)), expected)
    return op_names(dot_products(mod, backend_of(X86)))


def _scales() -> tuple[Any, Any]:
    return relay.const(0.5), relay.const(0.25)


def test_which_operands_a_target_takes() -> None:
    assert backend_of(X86).dot_operands() == ("uint8", "int8")
    assert backend_of(HASWELL).dot_operands() == ("int16", "int8")
    assert backend_of(ARM).dot_operands() == ("int8", "int8")
    assert backend_of(Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1")).dot_operands() == ("uint8", "int8")
    assert backend_of(Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53")).dot_operands() is None


@pytest.mark.parametrize("data", ["uint8", "int8"])
@pytest.mark.parametrize("weight", ["uint8", "int8"])
def test_dense_with_zero_points(data: str, weight: str) -> None:
    x = relay.var("x", shape=(5, 22), dtype=data)
    zero, other = (np.int32(_bytes(dtype, 1)[0]) for dtype in (data, weight))
    w = relay.const(_bytes(weight, 20, 22))
    sums = qnn.dense(x, w, relay.const(zero), relay.const(other), *_scales())
    assert "nn.contrib_dense_int8" in _check(sums, _bytes(data, 5, 22))


def test_rows_in_front_of_an_axis_of_one_are_tiles() -> None:
    """A sequence in front of its batch of one, as attention has it: matrix registers take the rows side by side."""
    x = relay.var("x", shape=(33, 1, 20), dtype="uint8")
    sums = qnn.dense(x, relay.const(_bytes("int8", 40, 20)), relay.const(131), relay.const(3), *_scales())
    assert "nn.contrib_dense_int8" in _check(sums, _bytes("uint8", 33, 1, 20))
    after = dot_products(expand_operators(module(sums)), backend_of(X86))["main"].body
    (product,) = [node for node in calls(after) if is_call(node, "nn.contrib_dense_int8")]
    assert tensor_type_of(product.args[0]).shape == (33, 20) and tensor_type_of(product).shape == (33, 1, 40)


def test_a_zero_point_known_at_run_time() -> None:
    x, zero = relay.var("x", shape=(3, 16), dtype="uint8"), relay.var("z", shape=(), dtype="uint8")
    w = relay.const(_bytes("int8", 24, 16))
    sums = qnn.dense(x, w, relay.cast(zero, "int32"), relay.const(0), *_scales())
    assert "nn.contrib_dense_int8" in _check(sums, _bytes("uint8", 3, 16), np.array(77, np.uint8))


def test_columns_that_fill_no_vectors_are_padded() -> None:
    x = relay.var("x", shape=(2, 8), dtype="uint8")
    sums = qnn.dense(x, relay.const(_bytes("int8", 13, 8)), relay.const(4), relay.const(0), *_scales())
    assert "strided_slice" in _check(sums, _bytes("uint8", 2, 8))


@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_stacks(transposed: bool) -> None:
    shape = (3, 16, 18) if transposed else (3, 18, 16)
    a, b = relay.var("a", shape=(3, 6, 18), dtype="uint8"), relay.var("b", shape=shape, dtype="uint8")
    product = qnn.batch_matmul(a, b, relay.const(9), relay.const(131), *_scales(), transpose_b=transposed)
    names = _check(product, _bytes("uint8", 3, 6, 18), _bytes("uint8", *shape))
    assert "nn.contrib_batch_matmul_int8" in names


@pytest.mark.parametrize("channels", [3, 16])
@pytest.mark.parametrize("data", ["uint8", "int8"])
def test_convolutions_with_the_zero_point_around(channels: int, data: str) -> None:
    x = relay.var("x", shape=(1, channels, 9, 7), dtype=data)
    w = relay.const(_bytes("int8", 16, channels, 3, 3))
    sums = qnn.conv2d(x, w, relay.const(5), relay.const(0), *_scales(), strides=(2, 1), padding=(1, 1))
    assert "nn.contrib_conv2d_int8" in _check(sums, _bytes(data, 1, channels, 9, 7))


@pytest.mark.parametrize(("filters", "names"), [(29, True), (5, True), (3, False)])
def test_filters_that_fill_no_blocks_are_padded(filters: int, names: bool) -> None:
    x = relay.var("x", shape=(1, 17, 9, 7), dtype="int8")
    w = relay.const(_bytes("int8", filters, 17, 3, 3))
    sums = qnn.conv2d(x, w, relay.const(5), relay.const(0), *_scales(), padding=(1, 0))
    found = _check(sums, _bytes("int8", 1, 17, 9, 7))
    assert ("nn.contrib_conv2d_int8" in found) is names


def test_convolutions_whose_weights_have_a_zero_point() -> None:
    x = relay.var("x", shape=(1, 8, 9, 7), dtype="uint8")
    w = relay.const(_bytes("uint8", 16, 8, 3, 3))
    window = {"strides": (2, 1), "padding": (1, 0), "dilation": (1, 2)}
    sums = qnn.conv2d(x, w, relay.const(5), relay.const(100), *_scales(), **window)
    assert {"nn.contrib_conv2d_int8", "sum"} <= set(_check(sums, _bytes("uint8", 1, 8, 9, 7)))


def test_a_convolution_whose_zero_point_is_known_at_run_time() -> None:
    x, zero = relay.var("x", shape=(1, 4, 6, 6), dtype="uint8"), relay.var("z", shape=(), dtype="uint8")
    w = relay.const(_bytes("int8", 8, 4, 3, 3))
    sums = qnn.conv2d(x, w, relay.cast(zero, "int32"), relay.const(0), *_scales(), padding=(1, 1))
    names = _check(sums, _bytes("uint8", 1, 4, 6, 6), np.array(200, np.uint8))
    assert {"where", "nn.contrib_conv2d_int8"} <= set(names)


def test_depthwise_convolutions_multiply_16_bits() -> None:
    x = relay.var("x", shape=(1, 16, 8, 8), dtype="uint8")
    w = relay.const(_bytes("int8", 16, 1, 3, 3))
    sums = qnn.conv2d(x, w, relay.const(5), relay.const(0), *_scales(), padding=(1, 1), groups=16)
    _check(sums, _bytes("uint8", 1, 16, 8, 8))
    after = dot_products(expand_operators(module(sums)), backend_of(X86))
    (conv,) = (call for call in calls(after["main"].body) if call.op.name == "nn.conv2d")
    assert [tensor_type_of(arg).dtype for arg in conv.args] == ["int16", "int16"]


@pytest.mark.parametrize(
    ("pair", "target", "expected"),
    [
        ((64, 64), HASWELL, True),
        ((127, 1), HASWELL, True),
        ((127, -128), HASWELL, True),
        ((-64, -64), HASWELL, True),
        ((127, 2), HASWELL, False),
        ((-128, -1), HASWELL, False),
        ((1, 1), X86, False),  # one instruction multiplies all four
        ((1, 1), Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64"), False),
    ],
)
def test_weights_whose_pairs_fit_16_bits(pair: tuple[int, int], target: Target, expected: bool) -> None:
    kernel = np.zeros((16, 6, 3, 3), "int8")
    kernel[3, 4:6, 1, 2] = pair
    x = relay.var("x", shape=(1, 6, 9, 7), dtype="uint8")
    image = module(relay.nn.conv2d(x, relay.const(kernel), padding=(1, 1), out_dtype="int32"))
    rows = module(
        relay.nn.dense(
            relay.var("x", shape=(4, 54), dtype="uint8"),
            relay.const(kernel.transpose(0, 2, 3, 1).reshape(16, 54)),
            out_dtype="int32",
        )
    )
    for mod in (image, rows):
        after = dot_products(mod, backend_of(target))
        (product,) = (call for call in calls(after["main"].body) if "in_pairs" in call.attrs)
        assert product.attrs["in_pairs"] is expected


def test_pairs_of_the_greatest_bytes_are_exact() -> None:
    if not HASWELL.is_host:
        pytest.skip("this machine cannot run code for haswell")
    weight = np.where(RNG.random((16, 8, 3, 3)) < 0.5, 64, -64).astype("int8")
    x = relay.var("x", shape=(1, 8, 9, 7), dtype="uint8")
    mod = module(relay.nn.conv2d(x, relay.const(weight), padding=(1, 1), out_dtype="int32"))
    data = RNG.choice([0, 255], (1, 8, 9, 7)).astype("uint8")
    (expected,) = relay.interpret(mod, [data])
    executable = tw.compile(mod, target=HASWELL, cache=False)
    np.testing.assert_array_equal(np.asarray(executable(data)), expected)


SKYLAKE = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")


@pytest.mark.parametrize("kind", ["spread", "127", "-128", "-128 and 127"])
@pytest.mark.parametrize("target", [SKYLAKE, HASWELL], ids=["AVX-512", "AVX2"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.sample(5)
def test_products_without_vnni_are_exact_at_the_extremes(kind: str, target: Target, dtype: str) -> None:
    """Weights that pmaddubsw would saturate in their own order, met by the largest and the smallest data."""
    made = {
        "spread": RNG.normal(0, 30, (96, 256)).round().clip(-128, 127),
        "-128 and 127": RNG.choice([-128, 127], (96, 256)),
    }
    weight = made[kind] if kind in made else np.full((96, 256), int(kind))
    x = relay.var("x", shape=(37, 256), dtype=dtype)
    product = qnn.dense(x, relay.const(weight.astype("int8")), relay.const(3), relay.const(0), *_scales())
    ordered = "nn.contrib_dense_int8_ordered" in op_names(
        dot_products(expand_operators(module(product)), backend_of(target))
    )
    assert ordered is (kind in ("spread", "127"))
    info, data = np.iinfo(dtype), _bytes(dtype, 37, 256)
    data[:4], data[4:8] = info.max, info.min
    data[8:16] = RNG.choice([info.min, info.max], (8, 256))
    exact = (data.astype("int64") - 3) @ weight.T.astype("int64")
    after = dot_products(expand_operators(module(product)), backend_of(target))
    np.testing.assert_array_equal(relay.interpret(after, [data])[0], exact)
    if target.is_host:
        np.testing.assert_array_equal(np.asarray(tw.compile(module(product), target=target, cache=False)(data)), exact)


@pytest.mark.parametrize(
    ("weight", "data", "zero", "expected"),
    [
        (127, "uint8", 0, True),  # 9 * 512 * 127 * 255 are too many; of one sign in half of the channels they are not
        (127, "int8", 0, True),
        (127, "uint8", 300, False),
    ],
)
def test_convolutions_whose_sums_winograd_keeps(weight: int, data: str, zero: int, expected: bool) -> None:
    kernel = np.full((16, 64, 3, 3), weight, "int8")
    x = relay.subtract(relay.cast(relay.var("x", shape=(1, 64, 9, 9), dtype=data), "int32"), relay.const(zero))
    mod = module(relay.nn.conv2d(x, relay.const(kernel.astype("int32")), padding=(1, 1), out_dtype="int32"))
    after = dot_products(mod, backend_of(HASWELL))
    (product,) = (call for call in calls(after["main"].body) if "small_sums" in call.attrs)
    assert product.attrs["small_sums"] is expected


def test_what_is_left_alone() -> None:
    x, w = relay.var("x", shape=(2, 8), dtype="int32"), relay.const(_bytes("int8", 8, 8).astype("int32"))
    wide = module(relay.nn.dense(x, w))
    assert dot_products(wide, backend_of(X86))["main"].body is wide["main"].body
    few = module(
        relay.nn.dense(
            relay.cast(relay.var("x", shape=(2, 8), dtype="int8"), "int32"), relay.const(np.ones((2, 8), "int32"))
        )
    )
    assert "nn.contrib_dense_int8" not in op_names(dot_products(few, backend_of(X86)))
