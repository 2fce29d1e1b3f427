"""The interface of optimizers, written in Relay, and what they share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, Var, const
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.training.rules.schedule import Rate, Schedule

Array = np.ndarray[Any, Any]
#: Parameters and state after a step.
Updated = tuple[list[Expr], list[Expr]]


class Optimizer(Protocol):
    """A rule by which parameters follow their gradients, written in Relay."""

    def initial_state(self, parameters: Sequence[Var]) -> dict[str, Array]:
        """The initial state of the rule, by name, before the first step."""

    def update(self, parameters: Sequence[Var], gradients: Sequence[Expr], state: Sequence[Expr]) -> Updated:
        """The parameters and the state (in the order of `initial_state`) after one step."""


def zeros(name: str, parameters: Iterable[Var]) -> dict[str, Array]:
    """An array of zeros for each parameter, of its shape and type."""
    types = [tensor_type_of(parameter) for parameter in parameters]
    return {f"{name}{i}": np.zeros(kind.shape, kind.dtype.numpy) for i, kind in enumerate(types)}


def clock(rate: Rate) -> dict[str, Array]:
    """The number of steps done, where the rate depends on it."""
    return {"step": np.zeros((), "int32")} if isinstance(rate, Schedule) else {}


def rate_of(rate: Rate, state: Sequence[Expr]) -> tuple[Expr | float, list[Expr]]:
    """The rate of this step, and the clock after it; the clock, if there is one, is the first of `state`."""
    if not isinstance(rate, Schedule):
        return rate, []
    return rate.at(op.cast(state[0], "float32")), [state[0] + const(1, "int32")]


def select(condition: Expr, new: Sequence[Expr], old: Sequence[Expr]) -> list[Expr]:
    """Those of `new` where the scalar `condition` is true, else those of `old`."""
    return [op.where(condition, a, b) for a, b in zip(new, old, strict=True)]
