"""Losses of a network's result, by name, for networks that come without one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.errors import InputError, TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.expr import Call, Constant, Expr, Var, const
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of


def loss_of(kind: str, result: Expr, name: str = "target") -> tuple[Expr, Var]:
    """The mean loss of a result, and the variable `name` of what it should be.

    `cross-entropy`: class numbers (int64) of the scores [N, classes], which may have gone through a softmax already;
    `binary-cross-entropy`: numbers of [0, 1] for scores, which may have gone through a sigmoid; `mean-squared` and
    `mean-absolute`: numbers of the result's type. Raises `InputError` for other names.
    """
    if kind not in LOSSES:
        raise InputError(f"there is no loss {kind!r}; known: {', '.join(LOSSES)}")
    return LOSSES[kind](result, name)


def _cross_entropy(result: Expr, name: str) -> tuple[Expr, Var]:
    of = tensor_type_of(result)
    if len(of.shape) != 2:
        raise TypeMismatchError(f"the cross entropy is of scores [samples, classes], and the result is {of}")
    target = Var(name, TensorType(of.shape[:1], "int64"))
    scores = _before(result, "nn.softmax")
    logarithms = result if _before(result, "nn.log_softmax") is not result else op.nn.log_softmax(scores)
    return op.nn.nll_loss(logarithms, target, Constant(np.ones(of.shape[1], of.dtype.numpy))), target


def _binary_cross_entropy(result: Expr, name: str) -> tuple[Expr, Var]:
    target, scores = Var(name, tensor_type_of(result)), _before(result, "sigmoid")
    # max(s, 0) - s t + log(1 + exp(-|s|)): finite for all scores
    positive = op.maximum(scores, const(0.0, str(tensor_type_of(result).dtype)))
    return op.mean(positive - scores * target + op.log1p(op.exp(op.negative(op.abs(scores))))), target


def _mean_squared(result: Expr, name: str) -> tuple[Expr, Var]:
    target = Var(name, tensor_type_of(result))
    error = result - target
    return op.mean(error * error), target


def _mean_absolute(result: Expr, name: str) -> tuple[Expr, Var]:
    target = Var(name, tensor_type_of(result))
    return op.mean(op.abs(result - target)), target


def _before(result: Expr, operator: str) -> Expr:
    """The argument of a call of an operator, or the result itself where it is no such call."""
    return result.args[0] if isinstance(result, Call) and result.op == get(operator) else result


LOSSES: dict[str, Callable[[Expr, str], tuple[Expr, Var]]] = {
    "cross-entropy": _cross_entropy,
    "binary-cross-entropy": _binary_cross_entropy,
    "mean-squared": _mean_squared,
    "mean-absolute": _mean_absolute,
}
