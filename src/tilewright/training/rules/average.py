"""An exponential moving average of the parameters, which often generalizes better than the last ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, Var, const
from tilewright.training.rules.names import AVERAGE
from tilewright.training.rules.optimizer import Array, Optimizer, Updated, select, zeros


@dataclass(frozen=True)
class Averaged:
    """An optimizer whose state has the averages of its parameters: a ← decay a + (1 - decay) p after each step.

    The first step's are its parameters. `Trainer.averages` returns them by name.
    """

    optimizer: Optimizer
    decay: float = 0.999

    def initial_state(self, parameters: Sequence[Var]) -> dict[str, Array]:
        """The averages, the number of steps, and the optimizer's state."""
        count = {"averaged_steps": np.zeros((), "int32")}
        return zeros(AVERAGE, parameters) | count | self.optimizer.initial_state(parameters)

    def update(self, parameters: Sequence[Var], gradients: Sequence[Expr], state: Sequence[Expr]) -> Updated:
        """The parameters and the state after one step."""
        n = len(parameters)
        moved, kept = self.optimizer.update(parameters, gradients, state[n + 1 :])
        averages = [a * self.decay + p * (1 - self.decay) for a, p in zip(state[:n], moved, strict=True)]
        first = op.equal(state[n], const(0, "int32"))
        return moved, [*select(first, moved, averages), state[n] + const(1, "int32"), *kept]
