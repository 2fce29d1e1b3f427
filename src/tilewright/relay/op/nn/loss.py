"""Losses: cross entropies and the negative log likelihood."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import TypeRule
from tilewright.relay.ir.type import Type
from tilewright.relay.op import reduce, tensor, transform
from tilewright.relay.op.common import (
    Types,
    call,
    require,
    require_float,
    require_same_dtype,
    same_dims,
    same_types,
    tensors,
)
from tilewright.relay.op.composite import register_composite, type_of_expansion
from tilewright.relay.op.gather import one_hot
from tilewright.relay.op.tensor import log


def _cross_entropy_type(expansion: object) -> TypeRule:
    def rule(types: Types, attrs: Attrs) -> Type:
        predictions, targets = tensors(types)
        require_float(predictions)
        require(
            same_types(predictions, targets) and predictions.ndim == 2,
            "predictions and targets [N, C] of one type are needed",
        )
        return type_of_expansion(expansion, types, attrs)  # type: ignore[arg-type]

    return rule


def _cross_entropy(args: Sequence[Expr], _attrs: Attrs) -> Expr:
    return -reduce.mean(reduce.sum(log(args[0]) * args[1], axis=1))


def _cross_entropy_with_logits(args: Sequence[Expr], _attrs: Attrs) -> Expr:
    return -reduce.mean(reduce.sum(args[0] * args[1], axis=1))


def _mean_loss(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    return np.asarray(-np.sum(values, dtype=np.float64) / len(like)).astype(like.dtype)


register_composite(
    "nn.cross_entropy",
    num_inputs=2,
    expansion=_cross_entropy,
    type_rule=_cross_entropy_type(_cross_entropy),
    reference=lambda _attrs, predictions, targets: _mean_loss(np.log(predictions) * targets, predictions),
)
register_composite(
    "nn.cross_entropy_with_logits",
    num_inputs=2,
    expansion=_cross_entropy_with_logits,
    type_rule=_cross_entropy_type(_cross_entropy_with_logits),
    reference=lambda _attrs, predictions, targets: _mean_loss(predictions * targets, predictions),
)


def cross_entropy(predictions: Expr, targets: Expr) -> Call:
    """-Σ targets log(predictions) / N of probabilities [N, C], a scalar."""
    return call("nn.cross_entropy", predictions, targets)


def cross_entropy_with_logits(predictions: Expr, targets: Expr) -> Call:
    """-Σ targets predictions / N of log-probabilities [N, C] (`log_softmax` of logits), a scalar."""
    return call("nn.cross_entropy_with_logits", predictions, targets)


# -------------------------------------------------------------------------------------------------------- nll_loss
def _nll_type(types: Types, attrs: Attrs) -> Type:
    predictions, targets, weights = tensors(types)
    require_float(predictions)
    require_same_dtype(predictions, weights)
    require(targets.dtype.is_int, f"the targets must be class numbers, not {targets.dtype}")
    wanted = (predictions.shape[0], *predictions.shape[2:])
    require(
        predictions.ndim >= 2 and same_dims(targets.shape, wanted),
        f"targets of shape {wanted} are needed, not {targets.shape}",
    )
    require(
        same_dims(weights.shape, (predictions.shape[1],)),
        f"one weight for each of {predictions.shape[1]} classes is needed",
    )
    known = ("mean", "sum", "none")
    require(attrs["reduction"] in known, f"reduction {attrs['reduction']!r}; known: {', '.join(known)}")
    return type_of_expansion(_nll_loss, types, attrs)


def _nll_loss(args: Sequence[Expr], attrs: Attrs) -> Expr:
    predictions, targets, weights = args
    kind = tensors([predictions.checked_type])[0]
    dtype, classes = str(kind.dtype), kind.shape[1]
    hot = one_hot(targets, 1, 0, classes, axis=1, dtype=dtype)
    counted = tensor.not_equal(targets, attrs["ignore_index"])
    weight = transform.reshape(weights, (1, classes, *[1] * (kind.ndim - 2)))
    share = hot * weight * tensor.cast(transform.expand_dims(counted, 1), dtype)
    losses = -reduce.sum(share * predictions, axis=1)
    if attrs["reduction"] == "none":
        return losses
    total = reduce.sum(losses)
    return total if attrs["reduction"] == "sum" else total / reduce.sum(share)


def _nll_reference(attrs: Attrs, predictions: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    classes = predictions.shape[1]
    picked = np.take_along_axis(predictions, np.expand_dims(targets % classes, 1), 1).squeeze(1)
    weight = np.where(targets == attrs["ignore_index"], 0, weights[targets % classes])
    losses = (-picked * weight).astype(predictions.dtype)
    if attrs["reduction"] == "none":
        return losses
    total = losses.sum(dtype=np.float64)
    return np.asarray(total if attrs["reduction"] == "sum" else total / weight.sum(dtype=np.float64)).astype(
        losses.dtype
    )


register_composite(
    "nn.nll_loss",
    num_inputs=3,
    expansion=_nll_loss,
    type_rule=_nll_type,
    reference=_nll_reference,
    attributes={"reduction": attr.text("mean"), "ignore_index": attr.integer(-100)},
)


def nll_loss(
    predictions: Expr, targets: Expr, weights: Expr, reduction: str = "mean", ignore_index: int = -100
) -> Call:
    """-weights[t] predictions[n, t] of log-probabilities [N, C, …] at the class numbers `targets` [N, …].

    `reduction` is "mean" (over the weights), "sum" or "none"; targets of `ignore_index` do not count.
    """
    return call("nn.nll_loss", predictions, targets, weights, reduction=reduction, ignore_index=ignore_index)
