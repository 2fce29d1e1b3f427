"""Products of dequantized values are products of integers, unless one operand stays a float."""

from __future__ import annotations

import numpy as np

from tests.relay.helpers import module, op_names, rand
from tilewright import relay
from tilewright.relay.op import qnn
from tilewright.relay.transform.quantize.dequantized_products import dequantized_products


def _weight(*shape: int) -> relay.Expr:
    values = np.random.default_rng(1).integers(-128, 128, shape).astype("int8")
    scale = np.linspace(0.01, 0.03, shape[0]).astype("float32")
    return qnn.dequantize(relay.const(values), relay.const(scale), relay.const(np.zeros(shape[0], "int32")), axis=0)


def test_a_product_that_nobody_quantizes() -> None:
    x = relay.var("x", shape=(4, 16), dtype="uint8")
    data = qnn.dequantize(x, relay.const(0.05), relay.const(7))
    mod = module(relay.tanh(relay.nn.dense(data, _weight(8, 16))))
    after = dequantized_products(mod)
    assert op_names(after) == ["qnn.dense", "cast", "multiply", "tanh"]
    values = np.random.default_rng(0).integers(0, 256, (4, 16)).astype("uint8")
    (expected,), (got,) = relay.interpret(mod, [values]), relay.interpret(after, [values])
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_a_convolution_scales_its_channels() -> None:
    x = relay.var("x", shape=(1, 3, 6, 6), dtype="uint8")
    data = qnn.dequantize(x, relay.const(0.05), relay.const(7))
    mod = module(relay.nn.conv2d(data, _weight(8, 3, 3, 3), padding=1))
    after = dequantized_products(mod)
    assert op_names(after) == ["qnn.conv2d", "cast", "multiply"]
    values = np.random.default_rng(0).integers(0, 256, (1, 3, 6, 6)).astype("uint8")
    (expected,), (got,) = relay.interpret(mod, [values]), relay.interpret(after, [values])
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_weights_alone_become_floats() -> None:
    x = relay.var("x", shape=(4, 16), dtype="float32")
    after = dequantized_products(module(relay.nn.dense(x, _weight(8, 16))))
    assert op_names(after) == ["nn.dense"]
    np.testing.assert_allclose(relay.interpret(after, [rand(4, 16)])[0].shape, (4, 8))
