"""Chains from bytes to bytes become tables of the same values, where these cost less."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import module, op_names
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.op import qnn
from tilewright.relay.transform.quantize.lookup_tables import lookup_tables
from tilewright.relay.transform.simplify.expand_operators import expand_operators
from tilewright.target import Target

VBMI = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=icelake-server")
PLAIN = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")
X = relay.var("x", shape=(1, 64, 37), dtype="int8")
DATA = np.random.default_rng(5).integers(-128, 128, (1, 64, 37)).astype("int8")


def _dequantized(x: relay.Expr, scale: float = 0.03, zero: int = 5) -> relay.Expr:
    return qnn.dequantize(x, relay.const(np.float32(scale)), relay.const(np.int32(zero)))


def _quantized(x: relay.Expr, scale: float = 0.02, zero: int = -7, dtype: str = "int8") -> relay.Expr:
    return qnn.quantize(x, relay.const(np.float32(scale)), relay.const(np.int32(zero)), out_dtype=dtype)


def _gelu(x: relay.Expr) -> relay.Expr:
    """Gelu as a quantizer leaves it, each step in bytes."""
    value = _dequantized(x)
    bent = _dequantized(_quantized(relay.erf(value / relay.const(np.float32(2**0.5))), 0.008, -1), 0.008, -1)
    return _quantized(value * _dequantized(_quantized(bent + relay.const(1.0), 0.008, -128), 0.008, -128))


def _after(expr: relay.Expr, target: Target = VBMI) -> list[str]:
    return op_names(lookup_tables(expand_operators(module(expr)), backend_of(target)))


def _check(expr: relay.Expr, target: str) -> None:
    (expected,) = relay.interpret(expand_operators(module(expr)), [DATA])
    (found,) = tw.compile(module(expr), target=target, cache=False).run({"x": DATA})
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("target", ["cpu", "llvm -mcpu=haswell", "llvm -mcpu=x86-64-v2"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_an_activation_in_steps_is_one_table(target: str, dtype: str) -> None:
    expr = _quantized(_dequantized(_gelu(X)), 0.05, 3, dtype)
    assert _after(expr) == ["lookup_byte"]
    assert _after(expr, PLAIN) == ["lookup_byte"]
    if Target.host().architecture == "x86_64":
        _check(expr, target)


def test_bytes_that_return_are_left_out() -> None:
    same = _quantized(_dequantized(X, 0.02, -7), 0.02, -7)
    assert _after(same) == []


def test_a_short_chain_stays() -> None:
    flipped = relay.cast(relay.cast(X, "int16") + relay.const(128, "int16"), "uint8")
    assert _after(flipped) == ["cast", "add", "cast"]


def test_ends_read_outside_are_looked_up_once_each() -> None:
    """The bytes that another operator reads, and those after them, have tables of the same source."""
    first = _gelu(X)
    second = _quantized(relay.tanh(_dequantized(first)), 0.01, 0)
    names = _after(relay.Tuple([relay.reshape(first, (64, 37)), relay.max(second, axis=1)]))
    assert names.count("lookup_byte") == 2 and "erf" not in names and "tanh" not in names


def test_numbers_by_channel_stop_a_chain() -> None:
    other = relay.const(np.linspace(0, 1, 37, dtype="float32"))
    expr = _quantized(_dequantized(X) * other)
    assert "lookup_byte" not in _after(expr)


def test_channels_in_blocks() -> None:
    x = relay.var("x", shape=(1, 32, 6, 5), dtype="int8")
    rng = np.random.default_rng(1)
    weight = relay.const(rng.normal(size=(32, 32, 1, 1)).astype("float32"))
    made = _gelu(_quantized(relay.nn.conv2d(_dequantized(x), weight, kernel_size=(1, 1)), 0.2, 0))
    expr = relay.nn.conv2d(_dequantized(made), weight, kernel_size=(1, 1))
    data = rng.integers(-128, 128, (1, 32, 6, 5)).astype("int8")
    (expected,) = relay.interpret(expand_operators(module(expr)), [data])
    (found,) = tw.compile(module(expr), cache=False).run({"x": data})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_data_and_table_are_checked() -> None:
    table = relay.const(np.zeros(256, "int8"))
    with pytest.raises(TypeMismatchError, match="must be bytes, not int32"):
        infer_type(module(relay.lookup_byte(relay.cast(X, "int32"), table)))
    with pytest.raises(TypeMismatchError, match="has 256 elements"):
        infer_type(module(relay.lookup_byte(X, relay.const(np.zeros(16, "int8")))))
