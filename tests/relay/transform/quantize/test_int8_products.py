"""`int8_products`: products of bytes less a number as products of bytes, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import relay
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.transform.quantize.dot_products import centred_bytes
from tilewright.relay.transform.quantize.int8_products import int8_products

RNG = np.random.default_rng(0)


def zero_centred(x, zero):
    return relay.subtract(relay.cast(x, "int32"), relay.const(np.int32(zero)))


def products(mod):
    nodes = post_order(infer_type(mod)["main"].body)
    return [n for n in nodes if isinstance(n, Call) and n.op.name in ("nn.conv2d", "nn.dense")]


def check(body, x, values, bytes_expected=True):
    mod = infer_type(IRModule.from_expr(relay.Function([x], body)))
    made = int8_products(mod)
    (product,) = products(made)
    assert (tensor_type_of(product.args[0]).dtype == "int8") == bytes_expected
    (found,), (wanted,) = (interpret(m["main"], {"x": values}) for m in (made, mod))
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


@pytest.mark.parametrize("dtype, zero", [("int8", 0), ("int8", -7), ("uint8", 128), ("uint8", 3)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": (1, 1, 1, 1)},
        {"padding": (2, 0, 1, 1), "strides": (2, 1)},
        {"padding": (2, 2, 2, 2), "dilation": (2, 2)},
        {"padding": (1, 1, 1, 1), "groups": 2},
    ],
    ids=str,
)
def test_a_convolution_of_centred_bytes_keeps_every_bit(dtype, zero, options):
    x = relay.var("x", shape=(2, 4, 7, 6), dtype=dtype)
    weight = RNG.integers(-128, 128, (6, 4 // options.get("groups", 1), 3, 3)).astype("int32")
    body = relay.nn.conv2d(zero_centred(x, zero), relay.const(weight), **options)
    limits = np.iinfo(dtype)
    check(body, x, RNG.integers(limits.min, limits.max + 1, (2, 4, 7, 6)).astype(dtype))


@pytest.mark.parametrize("dtype, zero", [("int8", -7), ("uint8", 3)])
def test_a_dense_layer_behind_a_reshape(dtype, zero):
    x = relay.var("x", shape=(3, 5, 1, 1), dtype=dtype)
    weight = relay.const(RNG.integers(-128, 128, (4, 5)).astype("int32"))
    body = relay.nn.dense(relay.reshape(zero_centred(x, zero), (3, 5)), weight)
    limits = np.iinfo(dtype)
    check(body, x, RNG.integers(limits.min, limits.max + 1, (3, 5, 1, 1)).astype(dtype))


@pytest.mark.parametrize("dtype, zeros", [("int8", (0, 7)), ("uint8", (3, 128))])
def test_products_of_two_computed_operands_read_bytes_from_memory(dtype, zeros):
    x = relay.var("x", shape=(2, 3, 5), dtype=dtype)
    other = relay.transpose(relay.minimum(x, relay.const(np.asarray(9, dtype))), axes=(0, 2, 1))
    body = relay.nn.batch_matmul(zero_centred(x, zeros[0]), zero_centred(other, zeros[1]), transpose_b=False)
    mod = infer_type(IRModule.from_expr(relay.Function([x], body)))
    made = int8_products(mod)
    stops = [n for n in post_order(made["main"].body) if isinstance(n, Call) and n.op.name == "annotation.stop_fusion"]
    assert [str(tensor_type_of(stop).dtype) for stop in stops] == ["int8", "int8"]
    limits = np.iinfo(dtype)
    values = RNG.integers(limits.min, limits.max + 1, (2, 3, 5)).astype(dtype)
    (found,), (wanted,) = (interpret(m["main"], {"x": values}) for m in (made, mod))
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def test_weights_whose_conversion_is_not_folded_are_bytes_too():
    x = relay.var("x", shape=(3, 5), dtype="int8")
    weight = zero_centred(relay.const(RNG.integers(-128, 128, (4, 5)).astype("int8")), 0)
    check(relay.nn.dense(zero_centred(x, 3), weight), x, RNG.integers(-128, 128, (3, 5)).astype("int8"))


def test_what_is_no_product_of_bytes_stays():
    x = relay.var("x", shape=(3, 5), dtype="int8")
    wide = relay.const(RNG.integers(-300, 300, (4, 5)).astype("int32"))
    check(relay.nn.dense(zero_centred(x, 1), wide), x, RNG.integers(-128, 128, (3, 5)).astype("int8"), False)


def test_data_behind_thousands_of_layers_is_looked_at() -> None:
    x = relay.var("x", shape=(4,), dtype="int8")
    for _ in range(3000):
        x = relay.abs(x)
    found = centred_bytes(x)
    assert found is not None and found.expr is x
