"""Mixtures of experts against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

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


def test_an_unknown_activation_is_named(check_node: Any) -> None:
    layers = [floats(EXPERTS, INNER, WIDTH), None, floats(EXPERTS, WIDTH, INNER)]
    with pytest.raises(UnsupportedError, match=r"MoE.*activation_type='swiglu'; supported: 'relu', 'gelu'"):
        check_node(
            "MoE", [floats(TOKENS, WIDTH), floats(TOKENS, EXPERTS)], layers, domain="com.microsoft", expected=[],
            activation_type="swiglu",
        )  # fmt: skip
