"""Random numbers from a key: `relay.random.uniform` and the generator behind it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr, const
from tilewright.relay.op.common import call


def threefry_key(seed: int) -> Constant:
    """The key that stands for a number."""
    words = np.zeros(10, np.uint64)
    words[0] = np.uint64(seed & (2**64 - 1))
    return Constant(words)


def threefry_generate(key: Expr, shape: Sequence[int]) -> Call:
    """(the key behind what was taken, uint64 words of `shape`)."""
    return call("random.threefry_generate", key, out_shape=shape)


def threefry_split(key: Expr) -> Call:
    """Two keys whose streams have nothing to do with each other."""
    return call("random.threefry_split", key)


def uniform(key: Expr, shape: Sequence[int], dtype: str = "float32", low: float = 0.0, high: float = 1.0) -> Call:
    """(the key behind what was taken, numbers of `shape` spread evenly over [low, high))."""
    limits = (const(low, dtype), const(high, dtype))
    return call("random.uniform", key, *limits, out_shape=shape, out_dtype=str(dtype))
