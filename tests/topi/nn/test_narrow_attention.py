"""Attention with operands of 16 bits: within its bound of float64, for sizes that fill no tile, masks, shared keys."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te
from tilewright.backend import build
from tilewright.backend.cpu.schedule.dispatch import schedule, space_of
from tilewright.target import Target
from tilewright.topi import nn
from tilewright.topi.reference import nn as ref

#: Batch, heads, key heads, rows, columns, depth, width of the values.
SHAPES = [
    (1, 4, 4, 32, 32, 16, 16),
    (2, 3, 3, 129, 33, 17, 48),
    (1, 6, 2, 17, 1, 12, 32),
    (1, 1, 1, 33, 129, 65, 16),
    (1, 2, 1, 16, 50, 1, 64),
]
#: Processors with matrix registers, with pairs of bfloat16 in vectors, with arithmetic of float16.
KINDS = [("sapphirerapids", "bfloat16"), ("znver4", "bfloat16"), ("sapphirerapids", "float16")]


def _inputs(shape: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    batch, heads, shared, rows, columns, depth, width = shape
    rng = np.random.default_rng(seed)
    sizes = (batch, heads, rows, depth), (batch, shared, columns, depth), (batch, shared, columns, width)
    return [rng.standard_normal(size).astype("float32") for size in sizes]


def _run(inputs: list[np.ndarray], cpu: str, operands: str, last: bool = False, **attrs: object) -> np.ndarray:
    target = Target(f"llvm -mcpu={cpu} -cores=2")
    if not target.is_host:
        pytest.skip(f"this machine cannot run code for {cpu}")
    positions = [te.placeholder(x.shape, str(x.dtype), f"in{i}") for i, x in enumerate(inputs)]
    out = nn.narrow_attention(*positions, operands=operands, **attrs)  # type: ignore[arg-type]
    space = space_of([out], target)
    assert space is not None
    config = space.ranked[-1 if last else 0][1]
    func = te.lower(schedule([out], target, config), [*positions, out], "attention")
    result = np.empty([int(n.value) for n in out.shape], inputs[0].dtype)
    build([func], target, threads=2)["attention"](*inputs, result)
    return result


def _bound(query: np.ndarray, key: np.ndarray, value: np.ndarray, scale: float, operands: str) -> np.ndarray:
    """The bound of docs/numerics.md for each element."""
    group, depth, columns = query.shape[1] // key.shape[1], query.shape[3], key.shape[2]
    key, value = (np.repeat(np.abs(x.astype("f8")), group, axis=1) for x in (key, value))
    half, short = (2.0**-9, 0.0) if operands == "bfloat16" else (2.0**-11, 32 * 2.0**-11)
    terms = np.einsum("bhmd,bhnd->bhmn", np.abs(query.astype("f8")), key) * scale * np.log2(np.e)
    off = ((2 * half + half**2 + short + (depth + 2) * 2.0**-24) * terms).max(axis=-1, keepdims=True)
    factor = 2 ** (2 * off) * (1 + half) ** 3 * (1 + short + (columns + 4) * 2.0**-21) - 1
    tiny = columns * 2.0**-24 * value.max() if operands == "float16" else 0.0
    return factor * value.max(axis=2, keepdims=True) + tiny


@pytest.mark.parametrize(("cpu", "operands"), KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_errors_are_within_the_bound(shape: tuple[int, ...], cpu: str, operands: str) -> None:
    inputs = _inputs(shape)
    exact = ref.attention(*(x.astype("f8") for x in inputs), scale=0.3)
    bound = _bound(*inputs, 0.3, operands)
    for last, layout in ((False, "BHSD"), (True, "BSHD")):
        found = _run(inputs, cpu, operands, last, scale=0.3, out_layout=layout)
        found = found if layout == "BHSD" else found.transpose(0, 2, 1, 3)
        assert np.all(np.abs(found - exact) <= bound)
        rounded = ref.narrow_attention(*inputs, None, 0.3, False, "BHSD", operands)
        tolerance = 4e-3 if operands == "bfloat16" else 6e-3  # a weight may be rounded to the next number
        np.testing.assert_allclose(found, rounded, rtol=0, atol=tolerance * np.abs(exact).max())


@pytest.mark.parametrize(("cpu", "operands"), KINDS)
@pytest.mark.parametrize("mask_shape", [(1, 1, 1, 37), (1, 1, 29, 37), (1, 5, 29, 37), (1, 5, 29, 1)])
def test_masks(mask_shape: tuple[int, ...], cpu: str, operands: str) -> None:
    inputs = _inputs((1, 5, 5, 29, 37, 8, 32))
    mask = np.where(np.random.default_rng(1).random(mask_shape) < 0.3, -np.inf, 0.5).astype("float32")
    mask[..., :1] = 0
    found = _run([*inputs, mask], cpu, operands, scale=0.5)
    expected = ref.attention(*(x.astype("f8") for x in inputs), mask, scale=0.5)
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.03)


@pytest.mark.parametrize(("cpu", "operands"), KINDS)
def test_causal_rows_see_what_came_before(cpu: str, operands: str) -> None:
    inputs = _inputs((1, 4, 4, 30, 30, 16, 16))
    found = _run(inputs, cpu, operands, causal=True)
    np.testing.assert_allclose(found, ref.attention(*inputs, causal=True), rtol=0, atol=0.03)
    rounded = inputs[2][:, :, 0].astype("float16" if operands == "float16" else "float32")
    np.testing.assert_allclose(found[:, :, 0], rounded, rtol=2.0**-8)


@pytest.mark.parametrize(("cpu", "operands"), KINDS)
def test_rows_of_hidden_numbers_are_nan_and_infinities_stay(cpu: str, operands: str) -> None:
    """As in float32: what nothing is seen of is 0 / 0, and a value that is infinite is so in the result."""
    query, key, value = _inputs((1, 1, 1, 18, 40, 16, 16))
    mask = np.zeros((1, 1, 18, 40), "float32")
    mask[:, :, 3] = -np.inf
    value[0, 0, 39, 5] = np.inf
    found = _run([query, key, value, mask], cpu, operands)
    assert np.all(np.isnan(found[0, 0, 3])) and np.all(np.isinf(np.delete(found[0, 0, :, 5], 3)))
    assert np.all(np.isfinite(np.delete(np.delete(found[0, 0], 3, 0), 5, 1)))


def test_scores_of_a_thousand_do_not_overflow() -> None:
    query, key, value = _inputs((1, 2, 2, 33, 37, 16, 16))
    inputs = [np.abs(query) * 100, -np.abs(key) * 10, value]
    found = _run(inputs, "sapphirerapids", "bfloat16")
    assert np.all(np.isfinite(found)) and np.abs(found).max() <= np.abs(value).max() * (1 + 2.0**-8)


@pytest.mark.parametrize("shape", [SHAPES[1], SHAPES[3]])
def test_bits_do_not_depend_on_the_division_of_work(shape: tuple[int, ...]) -> None:
    inputs = _inputs(shape)
    first, last = (_run(inputs, "sapphirerapids", "bfloat16", last) for last in (False, True))
    np.testing.assert_allclose(first, last, rtol=1e-6, atol=1e-6)
