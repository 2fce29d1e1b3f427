"""Random constants, the arguments of the cases: one generator, so that a case has the same values in every run."""

from __future__ import annotations

import numpy as np
from ml_dtypes import bfloat16

from tilewright.relay.ir.expr import Constant, const

RNG = np.random.default_rng(17)
_BYTES = np.random.default_rng(18)


def f(*shape: int, low: float = -2.0, high: float = 2.0) -> Constant:
    """Floats between `low` and `high`."""
    return const(RNG.uniform(low, high, shape).astype("float32"))


def bf(*shape: int) -> Constant:
    """Numbers in bfloat16."""
    return const(_BYTES.uniform(-2, 2, shape).astype(bfloat16))


def h(*shape: int) -> Constant:
    """Whole numbers in float16, which holds short sums of their products."""
    return const(_BYTES.integers(-4, 5, shape).astype("float16"))


def i(*shape: int, low: int = 0, high: int = 5, dtype: str = "int64") -> Constant:
    """Integers from `low` to `high` - 1."""
    return const(RNG.integers(low, high, shape).astype(dtype))


def b(*shape: int) -> Constant:
    """Bools."""
    return const(RNG.random(shape) < 0.5)


def short(*shape: int) -> Constant:
    """Bytes in 16 bits, less 128."""
    return const(byte(*shape).data.astype("int16") - np.int16(128))


def byte(*shape: int, dtype: str = "uint8") -> Constant:
    """Bytes of the whole range."""
    return const(_BYTES.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype))
