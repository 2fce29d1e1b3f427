"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.relay.ir.expr import Expr, Var
from tilewright.relay.op.tensor import rsqrt, sqrt
from tilewright.training.rules.optimizer import Array, Updated, clock, rate_of, zeros
from tilewright.training.rules.schedule import Rate


@dataclass(frozen=True)
class Adam:
    """Adaptive moments (Kingma and Ba, 2014), with the corrections for the first steps."""

    learning_rate: Rate = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def initial_state(self, parameters: Sequence[Var]) -> dict[str, Array]:
        """Two moments for each parameter, and the powers of the decay rates so far."""
        return {
            **clock(self.learning_rate),
            **zeros("mean", parameters),
            **zeros("square", parameters),
            "beta1_power": np.ones((), "float32"),
            "beta2_power": np.ones((), "float32"),
        }

    def update(self, parameters: Sequence[Var], gradients: Sequence[Expr], state: Sequence[Expr]) -> Updated:
        """The parameters, moments and powers after one step."""
        return self._update(parameters, parameters, gradients, state)

    def _update(
        self, parameters: Sequence[Var], bases: Sequence[Expr], gradients: Sequence[Expr], state: Sequence[Expr]
    ) -> Updated:
        """The same, the steps taken from `bases`."""
        n = len(parameters)
        learning_rate, now = rate_of(self.learning_rate, state)
        state = state[len(now) :]
        means = [m * self.beta1 + g * (1 - self.beta1) for m, g in zip(state[:n], gradients, strict=True)]
        squares = [s * self.beta2 + g * g * (1 - self.beta2) for s, g in zip(state[n : 2 * n], gradients, strict=True)]
        power1, power2 = state[2 * n] * self.beta1, state[2 * n + 1] * self.beta2
        rate, spread = learning_rate / (1.0 - power1), rsqrt(1.0 - power2)
        moved: list[Expr] = [
            p - m * rate / (sqrt(s) * spread + self.epsilon) for p, m, s in zip(bases, means, squares, strict=True)
        ]
        return moved, [*now, *means, *squares, power1, power2]


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled decay: p ← p (1 - learning_rate weight_decay) beside its step (Loshchilov, Hutter, 2017)."""

    weight_decay: float = 1e-2

    def update(self, parameters: Sequence[Var], gradients: Sequence[Expr], state: Sequence[Expr]) -> Updated:
        """The parameters, moments and powers after one step."""
        rate, _ = rate_of(self.learning_rate, state)
        shrunk = [p * (1.0 - rate * self.weight_decay) for p in parameters]
        return self._update(parameters, shrunk, gradients, state)
