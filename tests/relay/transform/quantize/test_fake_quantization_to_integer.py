"""Simulated quantization becomes integer arithmetic whose results differ by one quantum at most."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import module, op_names, rand
from tilewright import relay
from tilewright.relay.op import qnn
from tilewright.relay.transform.quantize.fake_quantization_to_integer import fake_quantization_to_integer


def _integers(*shape: int, seed: int = 0, dtype: str = "int8") -> np.ndarray:
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def _input(*shape: int, scale: float = 0.05, zero: int = 7) -> relay.Expr:
    x = relay.var("x", shape=shape, dtype="uint8")
    return qnn.dequantize(x, relay.const(scale), relay.const(zero))


def _weight(*shape: int, per_unit: bool = False) -> relay.Expr:
    scale = np.linspace(0.01, 0.03, shape[0]).astype("float32") if per_unit else np.float32(0.02)
    zero = np.zeros(shape[0] if per_unit else (), "int32")
    return qnn.dequantize(relay.const(_integers(*shape, seed=1)), relay.const(scale), relay.const(zero), axis=0)


def _bias(*shape: int, per_unit: bool = False) -> relay.Expr:
    """Whole numbers at the scale of the sums, as quantizers store biases."""
    scale = np.float32(0.05) * (np.linspace(0.01, 0.03, shape[0]).astype("float32") if per_unit else np.float32(0.02))
    whole = np.random.default_rng(2).integers(-900, 900, shape[0]).astype("float32")
    return relay.const((whole * scale).reshape(shape))


def _output(value: relay.Expr, scale: float = 0.7) -> relay.Expr:
    return qnn.quantize(value, relay.const(scale), relay.const(11), out_dtype="uint8")


def _check(mod: relay.IRModule, shape: tuple[int, ...]) -> list[str]:
    after = fake_quantization_to_integer(mod)
    x = _integers(*shape, dtype="uint8")
    (expected,), (got,) = relay.interpret(mod, [x]), relay.interpret(after, [x])
    assert got.dtype == expected.dtype and len(np.unique(got)) > 5
    assert int(np.abs(got.astype(int) - expected.astype(int)).max()) <= 1
    np.testing.assert_allclose(tw.compile(after, cache=False)(x).astype(int), got.astype(int), atol=1)
    return op_names(after)


@pytest.mark.parametrize("per_unit", [False, True])
def test_a_dense_layer_with_bias_and_relu(per_unit: bool) -> None:
    product = relay.nn.dense(_input(4, 16), _weight(8, 16, per_unit=per_unit))
    sums = relay.nn.bias_add(product, _bias(8, per_unit=per_unit))
    names = _check(module(_output(relay.nn.relu(sums))), (4, 16))
    assert names == ["qnn.dense", "nn.bias_add", "maximum", "qnn.requantize"]


@pytest.mark.parametrize("per_unit", [False, True])
def test_a_convolution_pooled_and_flattened(per_unit: bool) -> None:
    conv = relay.nn.conv2d(_input(1, 3, 6, 6), _weight(4, 3, 3, 3, per_unit=per_unit), padding=1)
    summed = relay.add(conv, _bias(4, 1, 1, per_unit=per_unit))
    pooled = summed if per_unit else relay.nn.batch_flatten(relay.nn.max_pool2d(summed, (2, 2), strides=(2, 2)))
    names = _check(module(_output(pooled)), (1, 3, 6, 6))
    assert names[:2] == ["qnn.conv2d", "add"] and "qnn.dequantize" not in names


@pytest.mark.parametrize("bias", [rand(8), np.full(8, 1e7, "float32")])
def test_a_bias_that_no_integers_stand_for_is_added_in_floats(bias: np.ndarray) -> None:
    """Rounded to the scale of the sums, or beyond int32, it would move results by a quantum where none is due."""
    sums = relay.nn.bias_add(relay.nn.dense(_input(4, 16), _weight(8, 16)), relay.const(bias))
    mod = module(qnn.quantize(sums, relay.const(float(np.abs(bias).max()) / 100), relay.const(0)))
    assert "nn.bias_add" in _names_after(mod) and "qnn.requantize" not in _names_after(mod)
    x = _integers(4, 16, dtype="uint8")
    np.testing.assert_array_equal(tw.compile(mod, cache=False)(x), relay.interpret(mod, [x])[0])


def test_sums_of_16_bits_that_exceed_32_stay_floats() -> None:
    x = relay.var("x", shape=(2, 9), dtype="uint16")
    wide = relay.const(np.full((4, 9), -30000, "int16"))
    weight = qnn.dequantize(wide, relay.const(2.0**-14), relay.const(0))
    product = relay.nn.dense(qnn.dequantize(x, relay.const(2.0**-14), relay.const(0)), weight)
    mod = module(qnn.quantize(product, relay.const(0.5), relay.const(0), out_dtype="int16"))
    full = np.full((2, 9), 65535, "uint16")
    (found,) = [tw.compile(mod, cache=False)(full)]
    np.testing.assert_array_equal(found, np.full((2, 4), round(9 * -30000 * 65535 / 2.0**28 / 0.5)))


@pytest.mark.parametrize(("shape", "axis"), [((16,), 1), ((16, 16), -1)])
def test_scales_along_the_depth_or_of_blocks_stay_floats(shape: tuple[int, ...], axis: int) -> None:
    """Scales of whole rows of weights stand before a sum; others, even as many, do not."""
    scale = np.linspace(0.01, 0.03, int(np.prod(shape))).astype("float32").reshape(shape)
    codes = relay.const(_integers(16, 16, seed=1))
    weight = qnn.dequantize(codes, relay.const(scale), relay.const(np.int32(0)), axis=axis)
    mod = module(relay.nn.dense(_input(4, 16), weight))
    x = _integers(4, 16, dtype="uint8")
    np.testing.assert_allclose(tw.compile(mod, cache=False)(x), relay.interpret(mod, [x])[0], rtol=1e-5, atol=1e-4)
    assert "qnn.dense" not in _names_after(module(_output(mod["main"].body)))


def test_values_that_mean_the_same_are_concatenated() -> None:
    x = _input(2, 8)
    mod = module(_output(relay.concatenate([relay.nn.relu(x), x], axis=1), scale=0.11))
    assert _check(mod, (2, 8)) == ["maximum", "concatenate", "qnn.requantize"]


def test_operators_without_a_rule_keep_the_floats() -> None:
    mod = module(_output(relay.tanh(_input(2, 8)), scale=0.01))
    assert fake_quantization_to_integer(mod)["main"].body is mod["main"].body
    scale = relay.var("scale", shape=())
    varying = module(qnn.quantize(_input(2, 8), scale, relay.const(0)))
    assert fake_quantization_to_integer(varying)["main"].body is varying["main"].body


def test_what_is_quantized_alike_again_stays() -> None:
    x = relay.var("x", shape=(2, 6), dtype="uint8")
    scale, zero = relay.const(0.3), relay.const(9)
    moved = relay.reshape(qnn.dequantize(x, scale, zero), (3, 4))
    assert _check(module(qnn.quantize(moved, scale, zero, out_dtype="uint8")), (2, 6)) == ["reshape"]
    other = module(qnn.quantize(moved, relay.const(0.23), zero, out_dtype="uint8"))
    assert _check(other, (2, 6)) == ["reshape", "qnn.requantize"]


def test_scales_of_channels_follow_their_axis() -> None:
    weight = relay.transpose(_weight(8, 16, per_unit=True), (1, 0))
    product = relay.nn.dense(_input(4, 16), relay.transpose(weight, (1, 0)))
    assert "qnn.dense" in _check(module(_output(product)), (4, 16))
    conv = relay.nn.conv2d(_input(1, 3, 1, 6), _weight(4, 3, 1, 3, per_unit=True), padding=(0, 1))
    row = relay.reshape(conv, (1, 4, 6))
    assert "qnn.conv2d" in _check(module(_output(row)), (1, 3, 1, 6))
    mixed = relay.reshape(conv, (1, 24))
    assert "qnn.conv2d" not in _names_after(module(_output(mixed)))


def _names_after(mod: relay.IRModule) -> list[str]:
    return op_names(fake_quantization_to_integer(mod))


def test_codes_next_to_a_tie_are_those_of_both_operators() -> None:
    # 12 * 0.03260708 / 0.00034581 is 1131.49993; 12 times the quotient of the scales rounds to 1131.5
    x = relay.var("x", shape=(1, 256), dtype="int8")
    floats = qnn.dequantize(x, relay.const(np.float32(0.03260708)), relay.const(-7))
    parts = relay.concatenate([floats, relay.nn.relu(floats)], axis=1)
    codes = qnn.quantize(
        parts, relay.const(np.float32(0.00034581084)), relay.const(np.uint16(32768)), out_dtype="uint16"
    )
    mod = module(codes)
    after = fake_quantization_to_integer(mod)
    assert op_names(after) == ["maximum", "concatenate", "qnn.dequantize", "qnn.quantize"]
    data = np.arange(-128, 128, dtype="int8")[None]
    (expected,) = relay.interpret(mod, [data])
    np.testing.assert_array_equal(relay.interpret(after, [data])[0], expected)
    np.testing.assert_array_equal(tw.compile(mod, cache=False)(data), expected)
