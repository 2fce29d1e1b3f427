"""Scaling of the loss for gradients of 16-bit floats, which would be 0 otherwise (Micikevicius et al., 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, Var, const
from tilewright.training.rules.optimizer import Array, Optimizer, Updated, select


@dataclass(frozen=True)
class LossScale:
    """A loss times a factor, and gradients divided by it.

    Where a gradient is not finite the step is left out and the factor halved; after `growth_steps` good steps in turn
    it is doubled. It starts as `start`; the state has it as `loss_scale`.
    """

    start: float = 2.0**16
    growth_steps: int = 2000

    def initial_state(self) -> dict[str, Array]:
        """The factor, and the good steps since it changed."""
        return {"loss_scale": np.full((), self.start, "float32"), "good_steps": np.zeros((), "int32")}

    def update(
        self,
        optimizer: Optimizer,
        parameters: Sequence[Var],
        gradients: Sequence[Expr],
        state: Sequence[Expr],
    ) -> Updated:
        """The optimizer's update by gradients of the scaled loss; the state is this one's, then the optimizer's."""
        scale, good, *inner = state
        inverse = const(1.0, "float32") / scale
        true = [gradient * inverse for gradient in gradients]
        finite: Expr = op.all(op.isfinite(true[0]))
        for gradient in true[1:]:
            finite = op.logical_and(finite, op.all(op.isfinite(gradient)))
        moved, kept = optimizer.update(parameters, true, inner)
        grown = op.equal(good, const(self.growth_steps - 1, "int32"))
        one, none = const(1, "int32"), const(0, "int32")
        factor = op.where(finite, op.where(grown, scale * 2.0, scale), scale * 0.5)
        counted = op.where(finite, op.where(grown, none, good + one), none)
        return select(finite, moved, parameters), [factor, counted, *select(finite, kept, inner)]
