"""What was chosen for a kernel: the template, its configuration, and the time that the cost model expects, by resource.

Nothing is read off the loops: this is what the template was given, as `inspect`, `profile` and the manifest show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright import te
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import RESOURCES, Cost
from tilewright.topi.schedule.cpu.common import computes, is_reduction
from tilewright.topi.schedule.cpu.dispatch import space_of, template_of
from tilewright.topi.schedule.cpu.moving_cost import moving_cost
from tilewright.topi.schedule.sketch.config import SKETCH, is_sketch
from tilewright.topi.schedule.space import ConfigSpace


@dataclass(frozen=True)
class Choice:
    """How one kernel is computed.

    `config` has the value of each knob of the template, in order; `microseconds` is the expected time with all cores of
    the target, `alone` with one of them, `bound` what most of the former is spent on (one of `cost.RESOURCES`, or
    "fixed"), and `spent` the microseconds that each resource by itself would take.
    """

    template: str
    config: tuple[tuple[str, int], ...] = ()
    microseconds: float = 0.0
    alone: float = 0.0
    bound: str = "fixed"
    spent: tuple[tuple[str, float], ...] = ()

    def config_text(self) -> str:
        """The configuration in a few words, "tile_rows=1 tile_blocks=2"; empty where there is none."""
        return " ".join(f"{name}={value}" for name, value in self.config)

    def to_json(self) -> dict[str, Any]:
        """Plain data for the manifest of an executable."""
        return {
            "template": self.template,
            "config": dict(self.config),
            "microseconds": self.microseconds,
            "alone": self.alone,
            "bound": self.bound,
            "spent": dict(self.spent),
        }

    @staticmethod
    def from_json(entry: Mapping[str, Any]) -> Choice:
        """The inverse of `to_json`."""
        config, spent = (tuple(entry[name].items()) for name in ("config", "spent"))
        return Choice(entry["template"], config, entry["microseconds"], entry["alone"], entry["bound"], spent)


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


def explain(choice: Choice) -> list[str]:
    """Lines on what was chosen and what it is expected to take."""
    lines = [f"template {choice.template}"]
    if choice.config:
        lines.append(f"chose {choice.config_text()}")
    spent = ", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in choice.spent)
    lines.append(f"predicted {choice.microseconds:.2f} µs, bound by {choice.bound.replace('_', ' ')}; alone: {spent}")
    return lines


def explain_space(space: ConfigSpace, target: Target, runners_up: int = 3) -> list[str]:
    """Lines on what else the search space holds: its size, and the configurations ranked next."""
    lines = [f"of {len(space.ranked)} configurations"]
    for cost, config in space.ranked[1 : 1 + runners_up]:
        lines.append(f"  next {config}, predicted {target.machine.seconds(cost.cycles) * 1e6:.2f} µs")
    return lines
