"""`quantize_to_shifts`: integers only between the ends, close to the float network, and its rules by example."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import relay
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Expr, Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.quantize.quantize_to_shifts import quantize_to_shifts

RNG = np.random.default_rng(5)


def constant(*shape: int, scale: float = 0.2) -> Expr:
    return relay.const((RNG.standard_normal(shape) * scale).astype("float32"))


def network() -> IRModule:
    """A residual network in small: convolutions with bias, a sum, both activations, pooling, a dense layer."""
    x = relay.var("x", shape=(1, 3, 12, 12))
    a = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, constant(8, 3, 3, 3), padding=(1, 1)), constant(8)))
    a = relay.nn.max_pool2d(a, pool_size=(2, 2), strides=(2, 2))
    b = relay.clip(relay.nn.conv2d(a, constant(8, 1, 3, 3), padding=(1, 1), groups=8), 0.0, 6.0)
    c = relay.nn.relu(relay.add(a, relay.nn.conv2d(b, constant(8, 8, 1, 1))))
    flat = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(c))
    y = relay.nn.softmax(relay.nn.bias_add(relay.nn.dense(flat, constant(5, 8)), constant(5)))
    return IRModule.from_expr(Function([x], y))


def data(count: int) -> list[dict[str, np.ndarray]]:
    return [{"x": RNG.standard_normal((1, 3, 12, 12)).astype("float32")} for _ in range(count)]


def test_a_network_stays_close_and_is_integers_in_between() -> None:
    mod = network()
    quantized = quantize_to_shifts(mod, data(4))
    for inputs in data(3):
        np.testing.assert_allclose(interpret(quantized, inputs)[0], interpret(mod, inputs)[0], atol=0.03)
    heavy = {"nn.conv2d", "nn.dense", "nn.max_pool2d", "sum", "add", "right_shift"}
    for call in calls(infer_type(quantized)["main"].body):
        if call.op.name in heavy:  # type: ignore[union-attr]
            assert str(tensor_type_of(call).dtype) in ("int8", "int32"), call.op
    names = [call.op.name for call in calls(quantized["main"].body)]  # type: ignore[union-attr]
    assert names.count("round") == 1, "the input alone is quantized while it runs"


def test_weights_have_a_power_of_two_each_output_channel() -> None:
    x = relay.var("x", shape=(1, 4))
    weight = np.eye(4, dtype="float32") * np.array([1.0, 0.25, 4.0, 0.0], "float32")[:, None]
    mod = IRModule.from_expr(Function([x], relay.nn.dense(x, relay.const(weight))))
    values = np.array([[1.0, 1.0, 1.0, 1.0]], "float32")
    quantized = quantize_to_shifts(mod, [{"x": values}])
    np.testing.assert_allclose(interpret(quantized, [values])[0], [[1.0, 0.25, 4.0, 0.0]], atol=4 / 127)
    products = [call for call in calls(quantized["main"].body) if call.op.name == "nn.dense"]  # type: ignore[union-attr]
    assert np.abs(products[0].args[1].data).max(axis=1).tolist() == [64, 64, 64, 0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("bias", [1e4, -1e6])
def test_a_bias_beyond_all_sums_does_not_overflow(bias: float) -> None:
    x = relay.var("x", shape=(2, 4))
    y = relay.nn.bias_add(relay.nn.dense(x, constant(3, 4)), relay.const(np.full(3, bias, "float32")))
    mod = IRModule.from_expr(Function([x], y))
    values = RNG.standard_normal((2, 4)).astype("float32")
    quantized = quantize_to_shifts(mod, [{"x": values}])
    np.testing.assert_allclose(interpret(quantized, [values])[0], bias, rtol=0.02)


def test_what_no_integers_come_to_stays_as_it_is() -> None:
    x, y = relay.var("x", shape=(1, 4, 5, 5)), relay.var("y", shape=(1, 4, 5, 5))
    mod = IRModule.from_expr(Function([x, y], relay.nn.relu(relay.add(relay.exp(x), y))))
    inputs = {name: RNG.standard_normal((1, 4, 5, 5)).astype("float32") for name in "xy"}
    quantized = quantize_to_shifts(mod)
    np.testing.assert_array_equal(interpret(quantized, inputs)[0], interpret(mod, inputs)[0])


AVERAGES = {
    "global": relay.nn.global_avg_pool2d,
    "pool": lambda x: relay.nn.avg_pool2d(x, pool_size=(10, 10)),
    "mean": lambda x: relay.mean(x, axis=(2, 3), keepdims=True),
}


@pytest.mark.parametrize("name", AVERAGES)
def test_means_and_activations_are_known_in_all_their_spellings(name: str) -> None:
    x = relay.var("x", shape=(1, 3, 12, 12))
    a = relay.nn.conv2d(x, constant(8, 3, 3, 3))
    a = relay.minimum(relay.maximum(a, relay.const(np.float32(0))), relay.const(np.float32(0.75)))
    mod = IRModule.from_expr(Function([x], AVERAGES[name](a)))
    inputs = data(1)
    quantized = quantize_to_shifts(mod, inputs)
    np.testing.assert_allclose(interpret(quantized, inputs[0])[0], interpret(mod, inputs[0])[0], atol=0.02)
    names = [call.op.name for call in calls(quantized["main"].body)]  # type: ignore[union-attr]
    assert "sum" in names and not {"maximum", "minimum", "mean", "nn.avg_pool2d", "nn.global_avg_pool2d"} & set(names)
