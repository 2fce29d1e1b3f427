"""Costs of layers in float and in integers: seconds, bytes that kernels read and write, energy.

Kernels of compiled models are timed in turns, the least of several runs counts. A kernel belongs to the first product
among the layers whose nodes it computes; conversions have the names of the layers that they are for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.quantize.energy import joules
from tilewright.quantize.layers import Layer
from tilewright.runtime.model import Model

#: What a layer in integers may cost more, as the share of noise of a measurement; and seconds that no one measures.
_MARGIN, _NOISE_SECONDS = 1.1, 20e-6
_TURNS, _REPEAT = 3, 3


@dataclass(frozen=True)
class Cost:
    """The cost of a layer or a model."""

    seconds: float = 0.0
    nbytes: int = 0
    joules: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.seconds + other.seconds, self.nbytes + other.nbytes, self.joules + other.joules)

    def by(self, objective: str) -> float:
        """Its number for one of `OBJECTIVES`."""
        return {"time": self.seconds, "memory": float(self.nbytes), "energy": self.joules}[objective]

    def text(self) -> str:
        """For a person."""
        return f"{self.seconds * 1e3:.3f} ms, {self.nbytes / 1e6:.2f} MB read and written, {self.joules * 1e3:.3f} mJ"


@dataclass(frozen=True)
class Point:
    """A model with `in_float` of its layers in float, those that lose most: its loss, and its cost by its layers."""

    in_float: int
    loss: float
    cost: Cost


OBJECTIVES = ("time", "memory", "energy")
_UNITS = {"time": (1e6, "us"), "memory": (1e-3, "kB"), "energy": (1e6, "uJ")}


def costs(
    models: Sequence[Model], inputs: Mapping[str, Any], layers: Sequence[Layer], integers: Sequence[Collection[str]]
) -> list[dict[str, Cost]]:
    """The cost of each layer, by name, in each of `models`, whose layers `integers` are so; "" has the rest."""
    order = [*(layer.name for layer in layers if layer.channels), *(layer.name for layer in layers)]
    names = list(dict.fromkeys(order))
    rows: list[list[Any]] = [[] for _ in models]
    for _ in range(_TURNS):
        for number, model in enumerate(models):
            given = {spec.name: inputs[spec.name] for spec in model.inputs}
            rows[number].append(model.profile(given, repeat=_REPEAT))
    found: list[dict[str, Cost]] = []
    for turns, whole in zip(rows, integers, strict=True):
        made: dict[str, Cost] = {}
        for kernel in zip(*turns, strict=True):
            source = set(re.split(r"[;,]\s*", kernel[0].source))
            name = next((one for one in names if one.partition("#")[0] in source), "")
            energy = joules(kernel[0].flops / 2, "int8" if name in whole else "float32", kernel[0].nbytes)
            cost = Cost(min(turn.seconds for turn in kernel), kernel[0].nbytes, energy)
            made[name] = made.get(name, Cost()) + cost
        found.append(made)
    return found


def least(one: Mapping[str, Cost], other: Mapping[str, Cost]) -> dict[str, Cost]:
    """Two measurements of the same kernels as one."""
    return {name: min(cost, other[name], key=lambda found: found.seconds) for name, cost in one.items()}


def total(parts: Mapping[str, Cost]) -> Cost:
    """The cost of the whole model."""
    return sum(parts.values(), Cost())


def why_costlier(integer: Cost, exact: Cost, objective: str) -> str:
    """The reason to leave a layer in float; "" if integers cost less, or so little that it cannot be measured.

    A sum that the kernel of a product computes costs nothing by itself in float, and has none.
    """
    ours, theirs = integer.by(objective), exact.by(objective)
    if not theirs or ours <= theirs * _MARGIN or (objective == "time" and ours - theirs < _NOISE_SECONDS):
        return ""
    scale, unit = _UNITS[objective]
    return f"in integers it costs {ours * scale:.0f} {unit}, in float {theirs * scale:.0f} {unit}"
