"""The choice for a kernel: the template, its configuration, and the time that the cost model expects, by resource.

Nothing is read off the loops: this is what the template was given, as `inspect`, `profile` and the manifest show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Choice:
    """The schedule of one kernel.

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

    def explained(self) -> list[str]:
        """Lines on what was chosen and what it is expected to take."""
        lines = [f"template {self.template}", *([f"chose {self.config_text()}"] if self.config else [])]
        spent = ", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in self.spent)
        return [
            *lines,
            f"predicted {self.microseconds:.2f} µs, bound by {self.bound.replace('_', ' ')}; alone: {spent}",
        ]

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
