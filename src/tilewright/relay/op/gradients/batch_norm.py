"""Batch normalization by the statistics of the batch, and its gradients, written so that few kernels pass over it.

Forward that is a pass each for the mean and the variance, and one that writes with a product and a sum an element;
backward two sums, and a pass that writes. Channels are the axis 1.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op import reduce, tensor, transform


def normalized_by_batch(data: Expr, gamma: Expr, beta: Expr, epsilon: float) -> tuple[Expr, Expr, Expr, Expr]:
    """`data` normalized over all axes but that of channels; a vector each of mean, one over deviation, and variance."""
    axes = _others(data)
    mean = reduce.mean(data, axis=axes, keepdims=True)
    centred = data - mean
    variance = reduce.mean(centred * centred, axis=axes, keepdims=True)
    scale = tensor.rsqrt(variance + epsilon)
    made = centred * (scale * _spread(gamma, data)) + _spread(beta, data)
    vectors = [transform.reshape(value, (-1,)) for value in (mean, scale, variance)]
    return made, vectors[0], vectors[1], vectors[2]


def through_batch_norm(
    g: Expr, data: Expr, gamma: Expr, mean: Expr, scale: Expr, count: Expr | None
) -> tuple[Expr, Expr, Expr]:
    """The gradients of `data`, `gamma` and beta from that of the result, `g`; `scale` is one over the deviation.

    `count` is the number of elements of a channel where `mean` and `scale` are those of `data`, None where they are
    constants."""
    axes, centred = _others(data), data - _spread(mean, data)
    total, along = reduce.sum(g, axis=axes), reduce.sum(g * centred, axis=axes)
    factor = scale * gamma
    made = g * _spread(factor, data)
    if count is not None:
        slope, shift = along * scale * scale * factor / count, total * factor / count
        made = made - (centred * _spread(slope, data) + _spread(shift, data))
    return made, along * scale, total


def _others(data: Expr) -> tuple[int, ...]:
    return tuple([axis for axis in range(tensor_type_of(data).ndim) if axis != 1])


def _spread(vector: Expr, data: Expr) -> Expr:
    """One number a channel of `data`, of its rank and type."""
    kind = tensor_type_of(data)
    if tensor_type_of(vector).dtype != kind.dtype:
        vector = tensor.cast(vector, str(kind.dtype))
    return transform.reshape(vector, [1, -1, *[1] * (kind.ndim - 2)])
