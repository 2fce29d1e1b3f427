"""The functions of docs/numerics.md, compiled in vectors: within the bounds it states over all of their types."""

from __future__ import annotations

import math
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tilewright import te, topi
from tilewright.codegen import build
from tilewright.topi import trigonometry
from tilewright.topi.reference.math import sigmoid

PAGE = Path(__file__).parents[2] / "docs" / "numerics.md"
BOUNDS = {name: float(ulp) for name, ulp in re.findall(r"^\| `(\w+)` \| ([\d.]+) \|$", PAGE.read_text(), re.M)}
REFERENCES = {
    **{name: getattr(np, name) for name in (
        "cos", "cosh", "exp", "expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh",
    )},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": sigmoid,
}  # fmt: skip


def compiled(name: str, x: np.ndarray) -> np.ndarray:
    """The function on all of `x`, 16 lanes at a time."""
    function = getattr(trigonometry, name, None) or getattr(topi, name)
    source = te.placeholder(x.shape, str(x.dtype), "x")
    result = function(source)
    schedule = te.create_schedule(result.op)
    _, lanes = schedule[result].split(result.op.axis[0], 16)
    schedule[result].vectorize(lanes)
    made = np.zeros(x.shape, x.dtype)
    build(te.lower(schedule, [source, result], name="f"), threads=1)["f"](x, made)
    return made


def errors(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """In ulp of the exact result; 0 where both round to the same, infinity where one is NaN and the other is not."""
    kind = got.dtype
    info = ml_dtypes.finfo(kind)
    with np.errstate(all="ignore"):
        rounded = exact.astype(kind)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        # In halves, as the largest number and what is beyond it may differ by an ulp too.
        half, wide = exact / 2, np.where(np.isinf(got.astype("f8")), np.sign(exact) * float(info.max), got.astype("f8"))
        exponent = np.maximum(np.frexp(np.minimum(np.abs(exact), float(info.max)))[1], info.minexp + 1)
        error = np.abs(wide / 2 - half) / np.ldexp(0.5, exponent - 1 - info.nmant)
        error = np.where(np.isinf(exact) | np.isnan(error), np.inf, error)
    return np.where(same, np.minimum(np.nan_to_num(error, posinf=0.0), 0.5), error)


def points() -> np.ndarray:
    """Every exponent with 180 fractions, both signs, denormal numbers, infinities, NaN; and what functions turn at."""
    spread = np.arange(0, 2**32, 45_007, dtype=np.uint64).astype(np.uint32).view(np.float32)
    dense = [np.linspace(-limit, limit, 60_001).astype(np.float32) for limit in (1.001, 20.0, 110.0)]
    edges = np.array(
        [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38], np.float32
    )
    every = np.concatenate([spread, *dense, edges])
    return np.resize(every, -(-every.size // 16) * 16)


def test_the_page_bounds_every_function() -> None:
    assert set(BOUNDS) == set(REFERENCES)


@pytest.mark.parametrize("name", REFERENCES)
def test_float32_within_its_bound(name: str) -> None:
    x = points()
    x = x[:: 16 if name == "erf" else 1]  # its reference is slow
    x = np.resize(x, -(-x.size // 16) * 16)
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](x.astype(np.float64))
    found = errors(compiled(name, x), exact)
    worst = int(np.argmax(found))
    assert found[worst] <= BOUNDS[name], (x[worst], found[worst])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", REFERENCES)
def test_every_16_bit_float_is_rounded_once(name: str, dtype: str) -> None:
    x = np.arange(65536, dtype=np.uint16).view(np.float16 if dtype == "float16" else ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        exact = REFERENCES[name](wide)
        found = errors(compiled(name, x), exact)
    worst = int(np.argmax(found))
    assert found[worst] <= 0.51, (x[worst], found[worst])


@pytest.mark.parametrize("name", ["asin", "acosh", "expm1", "log1p", "sinh", "log10"])
def test_float64_is_that_of_the_c_library(name: str) -> None:
    x = np.random.default_rng(4).uniform(-0.99, 0.99, 256) + (
        2.0 if name == "acosh" else 1.0 if name == "log10" else 0.0
    )
    np.testing.assert_allclose(compiled(name, x), REFERENCES[name](x), rtol=1e-15)
