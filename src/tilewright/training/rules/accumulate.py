"""Gradients of several steps added up before the optimizer takes its own: large batches in little memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.errors import InputError
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, Var, const
from tilewright.training.rules.optimizer import Array, Optimizer, Updated, select, zeros


@dataclass(frozen=True)
class Accumulated:
    """An optimizer that takes one step for each `steps`, by the mean of their gradients."""

    optimizer: Optimizer
    steps: int

    def initial_state(self, parameters: Sequence[Var]) -> dict[str, Array]:
        """The sums of gradients, how many there are, and the optimizer's state."""
        if self.steps < 1:
            raise InputError(f"an optimizer cannot have steps = {self.steps}")
        count = {"accumulated": np.zeros((), "int32")}
        return zeros("sum", parameters) | count | self.optimizer.initial_state(parameters)

    def update(self, parameters: Sequence[Var], gradients: Sequence[Expr], state: Sequence[Expr]) -> Updated:
        """The parameters and the state after one step; both stay until enough gradients are there."""
        n = len(parameters)
        inner = state[n + 1 :]
        sums = [s + g * (1 / self.steps) for s, g in zip(state[:n], gradients, strict=True)]
        due = op.equal(state[n], const(self.steps - 1, "int32"))
        moved, kept = self.optimizer.update(parameters, sums, inner)
        empty = [op.where(due, op.zeros_like(total), total) for total in sums]
        count = op.where(due, const(0, "int32"), state[n] + const(1, "int32"))
        return select(due, moved, parameters), [*empty, count, *select(due, kept, inner)]
