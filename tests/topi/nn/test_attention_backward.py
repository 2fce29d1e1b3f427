"""The gradient of attention as one kernel against NumPy: lengths that leave tails, masks, threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import te
from tilewright.backend import build
from tilewright.backend.cpu.schedule.dispatch import schedule
from tilewright.target import Target
from tilewright.topi import nn
from tilewright.topi.reference import nn as ref

#: Batch, heads, length, depth.
SHAPES = [(1, 4, 32, 16), (2, 3, 29, 24), (1, 1, 50, 64), (2, 2, 1, 8), (1, 2, 67, 12)]


def _inputs(shape: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype("float32") for _ in range(4)]


def _run(inputs: list[np.ndarray], threads: int, **attrs: Any) -> list[np.ndarray]:
    given = [te.placeholder(x.shape, str(x.dtype), f"in{i}") for i, x in enumerate(inputs)]
    outs = nn.attention_backward(*given, **attrs)
    target = Target("cpu")
    func = te.lower(schedule(outs, target), [*given, *outs], "backward")
    results = [np.empty([int(n.value) for n in outs[0].shape], inputs[0].dtype) for _ in outs]
    build([func], target, threads=threads)["backward"](*inputs, *results)
    return results


def _agree(got: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(other).max())))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_agree_with_the_reference(shape: tuple[int, ...], causal: bool) -> None:
    inputs, attrs = _inputs(shape), {"scale": 0.3, "causal": causal}
    _agree(_run(inputs, 2, **attrs), ref.attention_backward(*inputs, **attrs))


@pytest.mark.parametrize("mask_shape", [(1, 1, 1, 29), (2, 1, 29, 29), (1, 3, 29, 1)])
def test_masked_gradients_agree_with_the_reference(mask_shape: tuple[int, ...]) -> None:
    inputs = _inputs(SHAPES[1])
    mask = np.where(np.random.default_rng(1).random(mask_shape) < 0.3, -np.inf, 0.5).astype("float32")
    mask[..., :1] = 0
    _agree(_run([*inputs, mask], 2, scale=0.5), ref.attention_backward(*inputs, mask, scale=0.5))


def test_bits_do_not_depend_on_threads() -> None:
    inputs = _inputs(SHAPES[1])
    for one, other in zip(_run(inputs, 1), _run(inputs, 3), strict=True):
        np.testing.assert_array_equal(one, other)
