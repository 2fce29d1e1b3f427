"""Gradients clipped before an optimizer sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, Var, const
from tilewright.training.rules.optimizer import Array, Optimizer, Updated


@dataclass(frozen=True)
class ClippedByNorm:
    """An optimizer whose gradients, all together, have a norm of at most `norm` (Pascanu et al., 2013)."""

    optimizer: Optimizer
    norm: float

    def initial_state(self, parameters: Sequence[Var]) -> dict[str, Array]:
        """The optimizer's."""
        return self.optimizer.initial_state(parameters)

    def update(self, parameters: Sequence[Var], gradients: Sequence[Expr], state: Sequence[Expr]) -> Updated:
        """The optimizer's, by gradients that are clipped."""
        squares = [op.sum(gradient * gradient) for gradient in gradients]
        total = squares[0]
        for square in squares[1:]:
            total = total + square
        # the least number keeps zeros from a division by zero
        scale = op.minimum(self.norm / (op.sqrt(total) + 1e-6), const(1.0, "float32"))
        return self.optimizer.update(parameters, [gradient * scale for gradient in gradients], state)


@dataclass(frozen=True)
class ClippedByValue:
    """An optimizer whose gradients are of [-value, value], each element by itself."""

    optimizer: Optimizer
    value: float

    def initial_state(self, parameters: Sequence[Var]) -> dict[str, Array]:
        """The optimizer's."""
        return self.optimizer.initial_state(parameters)

    def update(self, parameters: Sequence[Var], gradients: Sequence[Expr], state: Sequence[Expr]) -> Updated:
        """The optimizer's, by gradients that are clipped."""
        clipped = [op.clip(gradient, -self.value, self.value) for gradient in gradients]
        return self.optimizer.update(parameters, clipped, state)
