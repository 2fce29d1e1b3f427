"""Optimizers of their own for groups of parameters: no weight decay for biases, another rate for the last layers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.errors import InputError
from tilewright.relay.ir.expr import Expr, Var
from tilewright.training.rules.optimizer import Array, Optimizer, Updated


@dataclass(frozen=True)
class Frozen:
    """Parameters that stay as they are."""

    def initial_state(self, parameters: Sequence[Var]) -> dict[str, Array]:
        """Nothing."""
        return {}

    def update(self, parameters: Sequence[Var], gradients: Sequence[Expr], state: Sequence[Expr]) -> Updated:
        """The parameters as they were."""
        return list(parameters), []


@dataclass(frozen=True)
class Grouped:
    """An optimizer for each group of parameters: those whose name a pattern is found in, the first that is; the others
    follow `otherwise`.

    `Grouped({r"bias$|norm": AdamW(weight_decay=0.0)}, AdamW())`. Raises `InputError` where a pattern is in no name.
    """

    groups: dict[str, Optimizer]
    otherwise: Optimizer = field(default_factory=Frozen)

    def initial_state(self, parameters: Sequence[Var]) -> dict[str, Array]:
        """The state of each group's optimizer, its names behind the number of the group."""
        state: dict[str, Array] = {}
        for number, (optimizer, positions) in enumerate(self._split(parameters)):
            own = optimizer.initial_state([parameters[position] for position in positions])
            state |= {f"group{number}_{name}": value for name, value in own.items()}
        return state

    def update(self, parameters: Sequence[Var], gradients: Sequence[Expr], state: Sequence[Expr]) -> Updated:
        """The parameters, in their order, and the states of all groups after one step."""
        moved: list[Expr] = list(parameters)
        kept: list[Expr] = []
        for optimizer, positions in self._split(parameters):
            own = [parameters[position] for position in positions]
            end = len(kept) + len(optimizer.initial_state(own))
            some, remembered = optimizer.update(own, [gradients[i] for i in positions], state[len(kept) : end])
            kept += remembered
            for position, value in zip(positions, some, strict=True):
                moved[position] = value
        return moved, kept

    def _split(self, parameters: Sequence[Var]) -> list[tuple[Optimizer, list[int]]]:
        """Each optimizer with the positions of its parameters."""
        found: dict[str | None, list[int]] = {pattern: [] for pattern in self.groups}
        found[None] = []
        for position, parameter in enumerate(parameters):
            pattern = next((pattern for pattern in self.groups if re.search(pattern, parameter.name)), None)
            found[pattern].append(position)
        for group, positions in found.items():
            if group is not None and not positions:
                raise InputError(f"no parameter has {group!r} in its name; there are {_names(parameters)}")
        return [(self.groups.get(p, self.otherwise) if p else self.otherwise, own) for p, own in found.items() if own]


def _names(parameters: Sequence[Var]) -> str:
    return ", ".join(parameter.name for parameter in parameters)
