"""From networks to a chip: the whole space bounded by the roofline, ten of it tuned on the cycle simulator, one chosen.

found = explore([work_of("resnet18.onnx")], budget=1.5)
write_bundle(found, Path("chip"))
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.errors import InputError, UserError
from tilewright.vta.config import Config
from tilewright.vta.explore.networks import Work
from tilewright.vta.explore.space import Candidate, candidates
from tilewright.vta.hardware import Hardware
from tilewright.vta.schedule.choice import TRIALS, Tuned, layer_bound, tune
from tilewright.vta.schedule.geometry import Conv2D
from tilewright.vta.schedule.predict import usual_room

#: The chip that others are compared with.
DEFAULT = Candidate(Config(), Hardware())


@dataclass(frozen=True)
class Point:
    """A chip with its bound in cycles and, once tuned, its cycles and layers."""

    candidate: Candidate
    bound: float
    cycles: int | None = None
    layers: tuple[tuple[Tuned, int], ...] = ()


@dataclass(frozen=True)
class Exploration:
    """The result of an exploration. Cycles are of all networks together, one inference each."""

    considered: int
    refused: int
    too_large: int
    bounded: list[Point]
    tuned: list[Point]
    default: Point
    chosen: Point
    left_out: list[str]

    @property
    def speedup(self) -> float:
        """Cycles of the default over those of the chosen chip."""
        assert self.default.cycles is not None and self.chosen.cycles is not None
        return self.default.cycles / self.chosen.cycles


def explore(
    networks: Sequence[Work],
    budget: float = 1.5,
    keep: int = 10,
    trials: int = TRIALS,
    progress: Callable[[str], None] = lambda text: None,
) -> Exploration:
    """Look for the fastest chip of at most `budget` times the default's area.

    `keep` chips are tuned, each layer with `trials` tilings. What was tuned is kept in the disk cache, so that a run
    that was broken off goes on where it was. Raises `UserError` where nothing fits.
    """
    if not any(work.layers for work in networks):
        raise InputError("the networks have no convolution or dense layer that GEMM could do")
    space = list(candidates())
    encodable = [found for found in space if isinstance(found, Candidate)]
    affordable = [found for found in encodable if found.area <= budget * DEFAULT.area]
    progress(f"{len(space)} configurations, {len(encodable)} can be encoded, {len(affordable)} within the budget")
    bounded = [Point(found, bound_of(found, networks)) for found in affordable]
    bounded = sorted((p for p in bounded if math.isfinite(p.bound)), key=lambda p: (p.bound, p.candidate.area))
    if not bounded:
        raise UserError(f"no configuration of at most {budget} times the default's area runs these networks")
    tuned = []
    for point in prune(bounded, keep):
        tuned.append(tuned_point(point, networks, trials, progress))
        progress(f"{point.candidate.name}: {tuned[-1].cycles} cycles, area {point.candidate.area / DEFAULT.area:.2f}")
    default = tuned_point(Point(DEFAULT, bound_of(DEFAULT, networks)), networks, trials)
    chosen = min(tuned, key=lambda p: (p.cycles, p.candidate.area))
    left_out = [text for work in networks for text in work.left_out]
    too_large = len(encodable) - len(affordable)
    return Exploration(
        len(space), len(space) - len(encodable), too_large, bounded, tuned, default, chosen, left_out
    )  # fmt: skip


def layers_of(networks: Sequence[Work], config: Config) -> Counter[Conv2D]:
    """The layers of all networks as a configuration runs them."""
    return sum((work.on(config) for work in networks), Counter())


def bound_of(candidate: Candidate, networks: Sequence[Work]) -> float:
    """Least cycles by the roofline."""
    layers = layers_of(networks, candidate.config)
    return sum(count * layer_bound(candidate.config, candidate.hardware, conv) for conv, count in layers.items())


def prune(points: list[Point], keep: int) -> list[Point]:
    """The best by bound in each of `keep` steps of area, from the smallest to the largest: a front, not one corner."""
    areas = [p.candidate.area for p in points]
    low, high = min(areas), max(areas)
    edges = [low * (high / low) ** ((i + 1) / keep) for i in range(keep)]
    chosen: list[Point] = []
    for edge in edges:
        best = min((p for p in points if p.candidate.area <= edge * (1 + 1e-9)), key=lambda p: p.bound)
        chosen += [] if best in chosen else [best]
    for alike in range(keep):  # then by bound again, no shape of tile and port more often than others
        for point in points:
            if len(chosen) < keep and point not in chosen and _like(point, chosen) <= alike:
                chosen.append(point)
    return chosen


def _like(point: Point, others: list[Point]) -> int:
    """The number of other points that have the same tiles and port."""
    shape = (point.candidate.config.block, point.candidate.hardware.port_bytes)
    return sum(shape == (p.candidate.config.block, p.candidate.hardware.port_bytes) for p in others)


def tuned_point(
    point: Point, networks: Sequence[Work], trials: int, progress: Callable[[str], None] = lambda text: None
) -> Point:
    """The point with what the cycle simulator says of its layers."""
    config, hardware = point.candidate.config, point.candidate.hardware
    layers = []
    for conv, count in layers_of(networks, config).items():
        found = tune(config, hardware, conv, 2, *usual_room(config, conv), trials)
        layers.append((found, count))
        progress(f"  {conv}: {found.cycles} cycles, {count} times")
    return Point(point.candidate, point.bound, sum(found.cycles * count for found, count in layers), tuple(layers))
