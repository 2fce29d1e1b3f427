"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.relay.ir.expr import Expr, Var
from tilewright.training.rules.optimizer import Array, Updated, clock, rate_of, zeros
from tilewright.training.rules.schedule import Rate


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent: v ← momentum v + g + weight_decay p; p ← p - learning_rate v (or g without).

    With `nesterov` the step is g + momentum v.
    """

    learning_rate: Rate
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def initial_state(self, parameters: Sequence[Var]) -> dict[str, Array]:
        """A velocity for each parameter, if there is momentum."""
        return clock(self.learning_rate) | (zeros("velocity", parameters) if self.momentum else {})

    def update(self, parameters: Sequence[Var], gradients: Sequence[Expr], state: Sequence[Expr]) -> Updated:
        """The parameters and velocities after one step."""
        rate, now = rate_of(self.learning_rate, state)
        if self.weight_decay:
            gradients = [g + p * self.weight_decay for p, g in zip(parameters, gradients, strict=True)]
        if not self.momentum:
            return [p - g * rate for p, g in zip(parameters, gradients, strict=True)], now
        velocities: list[Expr] = [v * self.momentum + g for v, g in zip(state[len(now) :], gradients, strict=True)]
        steps: Sequence[Expr] = velocities
        if self.nesterov:
            steps = [g + v * self.momentum for v, g in zip(velocities, gradients, strict=True)]
        return [p - s * rate for p, s in zip(parameters, steps, strict=True)], [*now, *velocities]
