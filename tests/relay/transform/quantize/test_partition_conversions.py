"""Quantized networks as three functions: conversions of inputs, the network, conversions of results."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.transform.quantize import qconfig, quantize

RNG = np.random.default_rng(7)
PARTS = {"quantize_inputs", "quantized_main", "dequantize_outputs", "main"}


def _two_convolutions(bias: bool) -> IRModule:
    """The sum of two convolutions whose weights differ in their magnitude, and a bias on one of them."""
    params, parts = [], []
    for name, largest in (("x", 1.0), ("y", 3.0)):
        params.append(relay.var(name, shape=(1, 4, 8, 8)))
        weight = relay.const((RNG.random((4, 4, 3, 3)) * largest).astype("float32"))
        parts.append(relay.nn.conv2d(params[-1], weight, kernel_size=(3, 3), channels=4, padding=(1, 1)))
    if bias:
        parts[0] = relay.nn.bias_add(parts[0], relay.const(RNG.random(4).astype("float32")))
    return IRModule.from_expr(relay.Function(params, relay.add(*parts)))


def _outputs(mod: IRModule) -> np.ndarray:
    rng = np.random.default_rng(3)
    return np.asarray(tw.compile(mod, cache=False)(*rng.random((2, 1, 4, 8, 8)).astype("float32")))


def test_a_sum_of_two_layers_is_a_network_of_integers_with_the_same_results() -> None:
    mod = _two_convolutions(bias=False)
    with qconfig(skip_conv_layers=None):
        whole = quantize(mod)
    with qconfig(skip_conv_layers=None, partition_conversions="fully_integral"):
        parts = quantize(mod)
    assert {gvar.name for gvar in parts.functions} == PARTS
    core = infer_type(parts)["quantized_main"]
    assert [str(tensor_type_of(param).dtype) for param in core.params] == ["int8", "int8"]
    assert str(tensor_type_of(core.body).dtype) == "int32"
    np.testing.assert_array_equal(_outputs(parts), _outputs(whole))


def test_a_float_within_is_named() -> None:
    mod = _two_convolutions(bias=True)
    integral = qconfig(skip_conv_layers=None, partition_conversions="fully_integral")
    with integral, pytest.raises(UnsupportedError, match=r"add is a float within the network"):
        quantize(mod)
    with qconfig(skip_conv_layers=None, partition_conversions="enabled"):
        parts = quantize(mod)
    with qconfig(skip_conv_layers=None):
        whole = quantize(mod)
    assert {gvar.name for gvar in parts.functions} == PARTS
    np.testing.assert_allclose(_outputs(parts), _outputs(whole), rtol=1e-6)


def test_several_results_are_converted_one_by_one() -> None:
    mod = _two_convolutions(bias=False)
    main = mod["main"]
    first, second = main.body.args
    mod = IRModule.from_expr(relay.Function(main.params, relay.Tuple([first, relay.nn.relu(second)])))
    with qconfig(skip_conv_layers=None, partition_conversions="enabled"):
        parts = quantize(mod)
    with qconfig(skip_conv_layers=None):
        whole = quantize(mod)
    rng = np.random.default_rng(3)
    given = rng.random((2, 1, 4, 8, 8)).astype("float32")
    for ours, theirs in zip(
        tw.compile(parts, cache=False)(*given), tw.compile(whole, cache=False)(*given), strict=True
    ):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6)
