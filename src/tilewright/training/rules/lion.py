"""Lion, whose steps are signs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, Var
from tilewright.training.rules.optimizer import Array, Updated, clock, rate_of, zeros
from tilewright.training.rules.schedule import Rate


@dataclass(frozen=True)
class Lion:
    """The sign of a mean of gradients, with decoupled weight decay (Chen et al., Symbolic Discovery, 2023)."""

    learning_rate: Rate = 1e-4
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0

    def initial_state(self, parameters: Sequence[Var]) -> dict[str, Array]:
        """A mean of gradients for each parameter."""
        return clock(self.learning_rate) | zeros("mean", parameters)

    def update(self, parameters: Sequence[Var], gradients: Sequence[Expr], state: Sequence[Expr]) -> Updated:
        """The parameters and means after one step."""
        rate, now = rate_of(self.learning_rate, state)
        pairs = list(zip(state[len(now) :], gradients, strict=True))
        signs = [op.sign(m * self.beta1 + g * (1 - self.beta1)) for m, g in pairs]
        means: list[Expr] = [m * self.beta2 + g * (1 - self.beta2) for m, g in pairs]
        shrink = 1.0 - rate * self.weight_decay
        return [p * shrink - s * rate for p, s in zip(parameters, signs, strict=True)], [*now, *means]
