"""Adafactor, whose state of a matrix is a row and a column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, Var, const
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.training.rules.optimizer import Array, Updated
from tilewright.training.rules.schedule import Rate, Schedule


@dataclass(frozen=True)
class Adafactor:
    """Mean squares of gradients factored into rows and columns (Shazeer and Stern, 2018); vectors have all of them.

    The step is relative to the parameter's size, of which `epsilon2` is the least that counts, and is cut where its
    root mean square is over `threshold`. `decay` is the exponent by which older gradients count less.
    """

    learning_rate: Rate = 1e-2
    decay: float = -0.8
    epsilon1: float = 2.0**-23
    epsilon2: float = 1e-3
    threshold: float = 1.0
    weight_decay: float = 0.0

    def initial_state(self, parameters: Sequence[Var]) -> dict[str, Array]:
        """The number of steps; for each parameter a row and a column, or a vector of mean squares."""
        state: dict[str, Array] = {"step": np.zeros((), "int32")}
        for index, parameter in enumerate(parameters):
            shape = tensor_type_of(parameter).shape
            if len(shape) > 1:
                state[f"rows{index}"] = np.zeros((*shape[:-1], 1), "float32")
                state[f"columns{index}"] = np.zeros((*shape[:-2], 1, shape[-1]), "float32")
            else:
                state[f"square{index}"] = np.zeros(shape, "float32")
        return state

    def update(self, parameters: Sequence[Var], gradients: Sequence[Expr], state: Sequence[Expr]) -> Updated:
        """The parameters and the state after one step."""
        count = op.cast(state[0], "float32")
        number = count + const(1.0, "float32")
        new = op.power(number, const(self.decay, "float32"))
        rate = self.learning_rate.at(count) if isinstance(self.learning_rate, Schedule) else None
        largest = const(self.learning_rate, "float32") if rate is None else rate
        bound = op.minimum(largest, op.rsqrt(number))
        moved: list[Expr] = []
        kept: list[Expr] = [state[0] + const(1, "int32")]
        rest = list(state[1:])
        for parameter, gradient in zip(parameters, gradients, strict=True):
            size = math.prod(tensor_type_of(parameter).shape)
            inverse, own = self._inverse_root(gradient, rest, new, len(tensor_type_of(parameter).shape) > 1)
            kept += own
            step = inverse * gradient
            cut = op.maximum(_root_mean_square(step, size) * (1 / self.threshold), const(1.0, "float32"))
            scale = op.maximum(_root_mean_square(parameter, size), const(self.epsilon2, "float32")) * bound
            moved.append(parameter * (1.0 - largest * self.weight_decay) - step * (scale / cut))
        return moved, kept

    def _inverse_root(self, gradient: Expr, rest: list[Expr], new: Expr, factored: bool) -> tuple[Expr, list[Expr]]:
        """One by the root of the mean squares, and the state that they are of; `rest` loses the old one."""
        square = gradient * gradient
        least = const(self.epsilon1**2, "float32")
        if not factored:
            old = rest.pop(0)
            mean = old + (square - old) * new
            return op.rsqrt(op.maximum(mean, least)), [mean]
        rows, columns = rest.pop(0), rest.pop(0)
        rows = rows + (op.mean(square, axis=-1, keepdims=True) - rows) * new
        columns = columns + (op.mean(square, axis=-2, keepdims=True) - columns) * new
        whole = op.maximum(op.mean(rows, axis=-2, keepdims=True), const(self.epsilon1, "float32"))
        return op.rsqrt(op.maximum(rows * columns / whole, least)), [rows, columns]


def _root_mean_square(value: Expr, size: int) -> Expr:
    return op.sqrt(op.sum(value * value) * (1 / size))
