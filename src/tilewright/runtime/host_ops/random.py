"""ONNX operators that draw random numbers, by NumPy's Mersenne Twister: the same seed, the same numbers.

Without a seed every run draws anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.runtime.host_ops.onnx_op import onnx_op
from tilewright.support.dtype import DType

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


def _generator(attrs: Attrs) -> np.random.RandomState:
    seed = attrs.get("seed")
    return np.random.RandomState(None if seed is None else int(seed) % 2**32)


def _shape(attrs: Attrs, like: Array | None) -> tuple[int, ...]:
    return tuple(attrs["shape"]) if like is None else like.shape


@onnx_op("RandomUniform", "RandomUniformLike")
def uniform(attrs: Attrs, like: Array | None = None) -> Array:
    """Numbers spread evenly between `low` and `high`."""
    drawn = _generator(attrs).uniform(attrs.get("low", 0.0), attrs.get("high", 1.0), _shape(attrs, like))
    return np.asarray(drawn).astype(DType(attrs["result_dtype"]).numpy)


@onnx_op("RandomNormal", "RandomNormalLike")
def normal(attrs: Attrs, like: Array | None = None) -> Array:
    """Numbers of a normal distribution."""
    drawn = _generator(attrs).normal(attrs.get("mean", 0.0), attrs.get("scale", 1.0), _shape(attrs, like))
    return np.asarray(drawn).astype(DType(attrs["result_dtype"]).numpy)


@onnx_op("Bernoulli")
def bernoulli(attrs: Attrs, probability: Array) -> Array:
    """1 with the probability that each element has, else 0."""
    drawn = _generator(attrs).binomial(1, p=probability.astype(np.float64))
    return np.asarray(drawn).astype(DType(attrs["result_dtype"]).numpy)


@onnx_op("Multinomial")
def multinomial(attrs: Attrs, logits: Array) -> Array:
    """`sample_size` classes drawn for each row of unnormalized log probabilities."""
    generator = _generator(attrs)
    weights = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True).astype(np.float64))
    totals = np.cumsum(weights, axis=1)
    drawn = generator.uniform(size=(len(logits), int(attrs.get("sample_size", 1)))) * totals[:, -1:]
    return (drawn[:, :, None] >= totals[:, None, :]).sum(axis=2).astype(DType(attrs["result_dtype"]).numpy)


@onnx_op("Dropout")
def dropout(attrs: Attrs, data: Array, ratio: Array | None = None, training: Array | None = None) -> Any:
    """In training, elements dropped with probability `ratio` and the rest scaled up; the mask of those kept."""
    share = float(attrs.get("ratio", 0.5) if ratio is None else ratio.reshape(-1)[0])
    if training is None or not training.reshape(-1)[0] or share == 0:
        return data, np.ones(data.shape, bool)
    mask = _generator(attrs).uniform(0, 1.0, data.shape) >= share
    return (data * mask * (1 / (1 - share))).astype(data.dtype), mask
