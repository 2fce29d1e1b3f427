"""A search for the layers to leave in float: as few as the budget allows, those that lose most on their own first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.quantize.data import Sample
from tilewright.quantize.loss import Loss, signal_to_noise
from tilewright.quantize.recipe import Choice
from tilewright.quantize.simulation import Simulation
from tilewright.support import trace

Array = np.ndarray[Any, Any]
#: Samples that each layer is tried on alone: its effect is a mean over all numbers of the results.
_TRIED = 8


@dataclass(frozen=True)
class Effect:
    """The effect of integers on a layer: decibels of signal to noise, relative errors of its result and the model's."""

    decibels: float
    error: float
    model_error: float
    #: The mean of float less ours, by channel.
    shift: Array


class Trial:
    """The simulation on samples, with the float model's results kept; `labels` are by the number of a sample."""

    def __init__(self, simulation: Simulation, samples: Sequence[Sample], labels: Array | None) -> None:
        self.simulation, self.samples, self.labels = simulation, samples, labels
        self._exact: dict[int, list[Array]] = {}

    def exact(self, number: int) -> list[Array]:
        """The results of the float model."""
        if number not in self._exact:
            self._exact[number] = self.simulation.run(self.samples[number], {}, ())[0]
        return self._exact[number]

    def loss(self, choices: Mapping[str, Choice], on: Collection[str], numbers: Sequence[int]) -> Loss:
        """The loss with the layers `on` in integers, on the samples `numbers`."""
        found = Loss()
        for number in numbers:
            ours, _ = self.simulation.run(self.samples[number], choices, on)
            found.add(self.exact(number), ours, None if self.labels is None else int(self.labels[number]))
        return found

    def effects(
        self, choices: Mapping[str, Choice], on: Collection[str], numbers: Sequence[int], most: int = _TRIED
    ) -> dict[str, Effect]:
        """The effect on each layer of `on`, with all of them in integers, on `most` of the samples `numbers`."""
        return self._effects(choices, [on], numbers[:most])

    def alone(self, choices: Mapping[str, Choice], numbers: Sequence[int], most: int = _TRIED) -> dict[str, Effect]:
        """The effect of each layer as the only one in integers."""
        return self._effects(choices, [[name] for name in choices], numbers[:most])

    def _effects(
        self, choices: Mapping[str, Choice], trials: Sequence[Collection[str]], numbers: Sequence[int]
    ) -> dict[str, Effect]:
        """The effects on the layers of each trial, which no two share; the float model runs once a sample."""
        gathered = [_Gathered(self.simulation, on) for on in trials]
        for done, number in enumerate(numbers):
            exact, inner = self.simulation.run(self.samples[number], choices, ())
            for position, one in enumerate(gathered):
                if len(gathered) > 1:
                    trace.progress("try layers alone", done * len(gathered) + position, len(numbers) * len(gathered))
                one.add(exact, inner, *self.simulation.run(self.samples[number], choices, one.on))
        return {name: effect for one in gathered for name, effect in one.effects().items()}


class _Gathered:
    """The differences that integers in the layers `on` make, sample by sample."""

    def __init__(self, simulation: Simulation, on: Collection[str]) -> None:
        self.simulation, self.on = simulation, on
        self.sums = {name: np.zeros(2) for name in on}
        self.shifts: dict[str, list[Array]] = {name: [] for name in on}
        self.model = Loss()

    def add(
        self, exact: list[Array], inner: Mapping[str, Array], ours: list[Array], coded: Mapping[str, Array]
    ) -> None:
        """Compare results, and what the layers compute, of one sample."""
        self.model.add(exact, ours)
        for name in self.on:
            wide = inner[name].astype(np.float64)
            difference = wide - coded[name]
            self.sums[name] += np.sum(wide**2), np.sum(difference**2)
            axis = self.simulation.layers[name].channel_axis
            self.shifts[name].append(difference.mean(axis=tuple(i for i in range(difference.ndim) if i != axis)))

    def effects(self) -> dict[str, Effect]:
        """The effect on each layer."""
        return {
            name: Effect(
                signal_to_noise(exact, error), float((error / max(exact, 1e-300)) ** 0.5), self.model.relative,
                np.mean(self.shifts[name], axis=0),
            )
            for name, (exact, error) in self.sums.items()
        }  # fmt: skip


def fewest_in_float(order: Sequence[str], holds: Callable[[int], bool], least: int = 0) -> int:
    """The least number of layers, from the front of `order`, that the budget `holds` without; `least` or more.

    Losses are taken to fall as layers leave; it is all of them where the budget holds for no fewer.
    """
    if holds(least):
        return least
    low, step = least, 1
    while (high := min(low + step, len(order))) < len(order) and not holds(high):
        low, step = high, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
