"""The choice of the templates for a computation, and its explanation in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright import te
from tilewright.backend.cpu.schedule.dispatch import space_of, template_of
from tilewright.backend.cpu.schedule.moving_cost import moving_cost
from tilewright.target import Target
from tilewright.topi.schedule.choice import Choice
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import RESOURCES, Cost
from tilewright.topi.schedule.sketch.config import SKETCH, is_sketch
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import computes, is_reduction


def choice_of(outs: list[te.Tensor], target: Target, config: Mapping[str, Any] | None = None) -> Choice:
    """The choice for the computation of `outs`: the configuration `config`, by default the one that costs least."""
    single = one_core(target)
    if config is not None and is_sketch(config):
        return _choice(
            SKETCH, Config(tuple(config.items())), moving_cost(outs, target), moving_cost(outs, single), target
        )
    found, space = template_of(outs), space_of(outs, target)
    if found is None or space is None:
        name = "reduce" if any(map(is_reduction, computes(outs))) else "injective"
        return _choice(name, Config(()), moving_cost(outs, target), moving_cost(outs, single), target)
    template, anchor = found
    chosen = space.default if config is None else space.config(config)
    cost, alone = space.cost(chosen), template.cost(template.workload(anchor, outs[0]), chosen, single)
    if not cost.cycles:
        cost, alone = moving_cost(outs, target), moving_cost(outs, single)
    return _choice(template.tag, chosen, cost, alone, target)


def one_core(target: Target) -> Target:
    """The same processor with one core."""
    return Target(str(target).replace(f"-cores={target.cores}", "-cores=1"))


def _choice(template: str, config: Config, cost: Cost, alone: Cost, target: Target) -> Choice:
    def microseconds(cycles: float) -> float:
        return round(target.machine.seconds(cycles) * 1e6, 2)

    spent = cost.spent
    parts = tuple((name, microseconds(spent[name])) for name in (*RESOURCES, "fixed") if spent[name])
    times = microseconds(cost.cycles), microseconds(alone.cycles)
    return Choice(template, config.items_, *times, cost.bound, parts)


def explain_space(space: ConfigSpace, target: Target, runners_up: int = 3) -> list[str]:
    """Lines on what else the search space holds: its size, and the configurations ranked next."""
    lines = [f"of {len(space.ranked)} configurations"]
    for cost, config in space.ranked[1 : 1 + runners_up]:
        lines.append(f"  next {config}, predicted {target.machine.seconds(cost.cycles) * 1e6:.2f} µs")
    return lines
