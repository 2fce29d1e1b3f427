"""Mixtures of experts against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import tilewright as tw
from tilewright.errors import UnsupportedError
from tilewright.frontend.onnx import from_onnx
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Constant
from tilewright.relay.ir.visitor import post_order

RNG = np.random.default_rng(5)
TOKENS, WIDTH, INNER, EXPERTS = 6, 8, 16, 4


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def codes(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity"])
@pytest.mark.parametrize(("picked", "normalize"), [(1, 0), (2, 1)])
def test_mixtures_of_experts_agree_with_onnxruntime(
    check_node: Any, activation: str, picked: int, normalize: int
) -> None:
    layers = [
        floats(EXPERTS, INNER, WIDTH),
        floats(EXPERTS, INNER),
        floats(EXPERTS, WIDTH, INNER),
        floats(EXPERTS, WIDTH),
    ]
    check_node(
        "MoE", [floats(2, 3, WIDTH), floats(TOKENS, EXPERTS)], layers, domain="com.microsoft", rtol=1e-4, atol=1e-4,
        k=picked, activation_type=activation, normalize_routing_weights=normalize,
    )  # fmt: skip


@pytest.mark.parametrize("bits", [4, 8])
def test_quantized_experts_agree_with_onnxruntime(check_node: Any, bits: int) -> None:
    part = 8 // bits
    layers = [
        codes(EXPERTS, INNER, WIDTH // part), np.abs(floats(EXPERTS, INNER)) * np.float32(0.05), floats(EXPERTS, INNER),
        codes(EXPERTS, WIDTH, INNER // part), np.abs(floats(EXPERTS, WIDTH)) * np.float32(0.05), floats(EXPERTS, WIDTH),
    ]  # fmt: skip
    check_node(
        "QMoE", [floats(TOKENS, WIDTH), floats(TOKENS, EXPERTS)], layers, domain="com.microsoft", rtol=1e-3, atol=1e-3,
        k=2, expert_weight_bits=bits, activation_type="relu", normalize_routing_weights=1,
    )  # fmt: skip


def test_weights_of_quantized_experts_stay_packed_and_agree_compiled(make_model: Any) -> None:
    width, inner = 64, 128
    weights = {"w1": codes(EXPERTS, inner, width // 2), "s1": np.abs(floats(EXPERTS, inner)),
               "w2": codes(EXPERTS, width, inner // 2), "s2": np.abs(floats(EXPERTS, width))}  # fmt: skip
    names = ["x", "router", "w1", "s1", "", "w2", "s2"]
    node = helper.make_node("QMoE", names, ["y"], domain="com.microsoft", k=2, activation_type="relu")
    feeds = {"x": floats(TOKENS, width), "router": floats(TOKENS, EXPERTS)}
    mod, _ = from_onnx(make_model([node], feeds, ["y"], 17, weights, {"com.microsoft": 1}), None)
    stored = sum(one.data.nbytes for one in post_order(mod["main"].body) if isinstance(one, Constant))
    assert stored < 1.1 * sum(array.nbytes for array in weights.values())
    (found,), (wanted,) = tw.compile(mod, cache=False).run(feeds), interpret(mod, feeds)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_an_unknown_activation_is_named(check_node: Any) -> None:
    layers = [floats(EXPERTS, INNER, WIDTH), None, floats(EXPERTS, WIDTH, INNER)]
    with pytest.raises(UnsupportedError, match=r"MoE.*activation_type='swiglu'; supported: 'relu', 'gelu'"):
        check_node(
            "MoE", [floats(TOKENS, WIDTH), floats(TOKENS, EXPERTS)], layers, domain="com.microsoft", expected=[],
            activation_type="swiglu",
        )  # fmt: skip
