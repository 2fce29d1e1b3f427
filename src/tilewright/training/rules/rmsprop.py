"""RMSProp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.relay.ir.expr import Expr, Var
from tilewright.relay.op.tensor import sqrt
from tilewright.training.rules.optimizer import Array, Updated, clock, rate_of, zeros
from tilewright.training.rules.schedule import Rate


@dataclass(frozen=True)
class RMSProp:
    """Gradients over the root of their mean square (Tieleman and Hinton, 2012), or with `centered` their deviation."""

    learning_rate: Rate = 1e-2
    alpha: float = 0.99
    epsilon: float = 1e-8
    momentum: float = 0.0
    weight_decay: float = 0.0
    centered: bool = False

    def initial_state(self, parameters: Sequence[Var]) -> dict[str, Array]:
        """A mean square for each parameter, a mean where it is centered, a velocity where there is momentum."""
        return {
            **clock(self.learning_rate),
            **zeros("square", parameters),
            **(zeros("mean", parameters) if self.centered else {}),
            **(zeros("velocity", parameters) if self.momentum else {}),
        }

    def update(self, parameters: Sequence[Var], gradients: Sequence[Expr], state: Sequence[Expr]) -> Updated:
        """The parameters and the state after one step."""
        n = len(parameters)
        rate, now = rate_of(self.learning_rate, state)
        state = state[len(now) :]
        if self.weight_decay:
            gradients = [g + p * self.weight_decay for p, g in zip(parameters, gradients, strict=True)]
        squares: list[Expr] = [self._mean(s, g * g) for s, g in zip(state[:n], gradients, strict=True)]
        kept, spreads = list(squares), squares
        if self.centered:
            means = [self._mean(m, g) for m, g in zip(state[n : 2 * n], gradients, strict=True)]
            spreads = [s - m * m for s, m in zip(squares, means, strict=True)]
            kept += means
        steps: list[Expr] = [g / (sqrt(s) + self.epsilon) for g, s in zip(gradients, spreads, strict=True)]
        if self.momentum:
            steps = [v * self.momentum + step for v, step in zip(state[len(kept) :], steps, strict=True)]
            kept += steps
        return [p - step * rate for p, step in zip(parameters, steps, strict=True)], [*now, *kept]

    def _mean(self, mean: Expr, value: Expr) -> Expr:
        return mean * self.alpha + value * (1 - self.alpha)
