"""Attention as one kernel against NumPy: lengths that leave tails, few and many heads, masks, shared keys."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te
from tilewright.backend import build
from tilewright.backend.cpu.schedule.dispatch import schedule
from tilewright.target import Target
from tilewright.topi import nn
from tilewright.topi.reference import nn as ref

#: Batch, heads, key heads, rows, columns, depth, width of the values.
SHAPES = [
    (1, 4, 4, 32, 32, 16, 16),
    (1, 5, 5, 29, 37, 8, 24),
    (2, 6, 2, 17, 16, 12, 32),
    (1, 1, 1, 40, 21, 16, 20),
    (1, 2, 1, 1, 50, 32, 64),
    (1, 4, 4, 3, 1, 1, 1),
]


def _run(inputs: list[np.ndarray], threads: int, **attrs: object) -> np.ndarray:
    positions = [te.placeholder(x.shape, str(x.dtype), f"in{i}") for i, x in enumerate(inputs)]
    out = nn.attention(*positions, **attrs)  # type: ignore[arg-type]
    target = Target("cpu")
    func = te.lower(schedule([out], target), [*positions, out], "attention")
    result = np.empty([int(n.value) for n in out.shape], inputs[0].dtype)
    build([func], target, threads=threads)["attention"](*inputs, result)
    return result


def _inputs(shape: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    batch, heads, shared, rows, columns, depth, width = shape
    rng = np.random.default_rng(seed)
    sizes = (batch, heads, rows, depth), (batch, shared, columns, depth), (batch, shared, columns, width)
    return [rng.standard_normal(size).astype("float32") for size in sizes]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("out_layout", ["BHSD", "BSHD"])
@pytest.mark.sample(4)
def test_attention_agrees_with_the_reference(shape: tuple[int, ...], out_layout: str) -> None:
    inputs = _inputs(shape)
    got = _run(inputs, 2, scale=0.3, out_layout=out_layout)
    np.testing.assert_allclose(got, ref.attention(*inputs, scale=0.3, out_layout=out_layout), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("mask_shape", [(1, 1, 1, 37), (1, 1, 29, 37), (1, 5, 29, 37), (1, 5, 29, 1)])
def test_masked_attention_agrees_with_the_reference(mask_shape: tuple[int, ...]) -> None:
    inputs = _inputs(SHAPES[1])
    mask = np.where(np.random.default_rng(1).random(mask_shape) < 0.3, -np.inf, 0.5).astype("float32")
    mask[..., :1] = 0
    expected = ref.attention(*inputs, mask, scale=0.5)
    np.testing.assert_allclose(_run([*inputs, mask], 2, scale=0.5), expected, rtol=1e-5, atol=2e-6)


def test_causal_rows_see_what_came_before() -> None:
    inputs = _inputs((1, 4, 4, 30, 30, 16, 16))
    got = _run(inputs, 1, causal=True)
    np.testing.assert_allclose(got, ref.attention(*inputs, causal=True), rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(got[:, :, 0], inputs[2][:, :, 0], rtol=1e-6)


def test_very_negative_scores_do_not_vanish() -> None:
    query, key, value = _inputs(SHAPES[1])
    got = _run([np.abs(query) * 100, -np.abs(key) * 100, value], 1)
    np.testing.assert_allclose(got, ref.attention(np.abs(query) * 100, -np.abs(key) * 100, value), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [SHAPES[1], SHAPES[3]])
def test_bits_do_not_depend_on_threads(shape: tuple[int, ...]) -> None:
    inputs = _inputs(shape)
    np.testing.assert_array_equal(_run(inputs, 1), _run(inputs, 3))


def test_hidden_by_a_hundred_is_nothing_at_all() -> None:
    """Weights of exp(-100) would be denormal numbers, which some processors take many times as long for."""
    query, key, value = _inputs((1, 4, 4, 9, 16, 16, 16))
    mask = np.where(np.arange(16) < 8, 0, -100).astype("float32")[None, None, None]
    value[:, :, 8:] = 3e38
    expected = ref.attention(0 * query, 0 * key, np.where(np.arange(16)[:, None] < 8, value, 0), mask)
    np.testing.assert_allclose(_run([0 * query, 0 * key, value, mask], 2), expected, rtol=1e-5, atol=2e-6)
