"""The layers that stay in integers: within the budget of loss, and where integers cost no more than floats.

Costs come from one model with all layers in integers beside the float model. The layers that cost least together, with
conversions, are a minimum cut (`regions`); those that lose most for what they save leave until the budget holds;
what is left is compiled, and regions leave until the whole model is no slower than in float.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from tilewright.compile import compile
from tilewright.errors import InputError
from tilewright.quantize.cost import (
    Cost,
    Point,
    beside,
    conversion,
    cost_text,
    costs,
    least,
    total,
    whole,
    why_costlier,
)
from tilewright.quantize.data import Split
from tilewright.quantize.layers import Layer
from tilewright.quantize.loss import Loss
from tilewright.quantize.recipe import Choice, Recipe
from tilewright.quantize.regions import cheapest, edges
from tilewright.quantize.search import Effect, Trial, fewest_in_float
from tilewright.quantize.source import Source
from tilewright.runtime.model import Model

Parts = Mapping[str, Cost]
#: Models that are compiled at most to find one that is no slower than in float: half of what is left leaves each time.
_ROUNDS = 6
#: Points of the front between all layers in integers and all in float.
_POINTS = 8
#: What a layer saves that saves nothing: it leaves before all others.
_NO_COST = 1e-30
#: Seconds of a kernel that are its launch's as likely.
_LAUNCH_SECONDS = 2e-6


@dataclass(frozen=True)
class Wish:
    """The wishes for a selection: the budget of loss and its measure, what costs are, the threads."""

    budget: float | None
    measure: str
    objective: str | None
    threads: int | None


class Selection:
    """One choice among layers with `choices`; `reasons` says why one of them is in float."""

    def __init__(
        self,
        source: Source,
        found: Sequence[Layer],
        trial: Trial,
        parts: Split,
        choices: Mapping[str, Choice],
        wish: Wish,
    ) -> None:
        self.source, self.found, self.trial, self.parts = source, found, trial, parts
        self.choices, self.wish = choices, wish
        self.reasons: dict[str, str] = {}
        self.alone: Mapping[str, Effect] = {}
        #: The costs of each layer by itself, in float and with all of `choices` in integers.
        self.in_float: Parts = {}
        self.in_integers: Parts = {}
        self.totals: dict[str, str] = {}
        self.loss, self.confirmed = Loss(), True
        self._models: dict[tuple[str, ...], Model] = {}

    def select(self, front: bool) -> list[str]:
        """The layers in integers; with `front` costs and losses are measured whether they decide or not."""
        if self.wish.objective is not None or front:
            self._measure()
        if self.wish.budget is not None or front:
            self.alone = self.trial.alone(self.choices, self.parts.search)
        on = self._worth([]) if self.wish.budget is None else self._within(self.wish.budget)
        if self.wish.budget is None:
            on = self._not_costlier(on)
            self.loss = self._measured(on)
        return on

    # -------------------------------------------------------------------------------------------------------- costs
    @cached_property
    def float_model(self) -> Model:
        """The compiled float model, whose cost is measured beside each choice of layers."""
        return compile(self.source.module, threads=self.wish.threads)

    def _integer_model(self, on: Collection[str]) -> Model:
        if not on:
            return self.float_model
        key = tuple(on)
        if key not in self._models:
            module = self.source.rewritten(self.recipe(on))
            self._models = {key: compile(module, threads=self.wish.threads)}
        return self._models[key]

    def recipe(self, on: Collection[str]) -> Recipe:
        """The recipe with the layers `on` in integers."""
        names = [layer.name for layer in self.found if layer.name in self.choices]
        return Recipe(
            {
                name: replace(self.choices[name], in_float="" if name in on else self.reasons.get(name, "not chosen"))
                for name in names
            }
        )

    def _measure(self) -> None:
        """Measure all layers in integers beside all in float, twice: a machine may be busy."""
        self.in_float, self.in_integers = self._costs(list(self.choices))

    def _costs(self, on: Sequence[str]) -> tuple[Parts, Parts]:
        models = self.float_model, self._integer_model(on)
        measured = [costs(models, self.trial.samples[0], self.found, ([], on)) for _ in range(2)]
        exact, integer = (least(measured[0][i], measured[1][i]) for i in range(2))
        return exact, integer

    @cached_property
    def _links(self) -> dict[tuple[str, str], float]:
        """The cost of a conversion between two layers, by their names."""
        objective = self.wish.objective or "time"
        found: dict[tuple[str, str], float] = {}
        for begin, end, size in edges([layer for layer in self.found if layer.name in self.choices]):
            found[begin, end] = found.get((begin, end), 0.0) + conversion(size, objective)
        return found

    def _worth(self, out: Collection[str]) -> list[str]:
        """The layers that cost least in integers, with those of `out` in float."""
        objective = self.wish.objective
        if objective is None:
            return [name for name in self.choices if name not in out]
        exact = {name: self.in_float.get(name, Cost()).by(objective) for name in self.choices}
        integer = {name: self.in_integers.get(name, Cost()).by(objective) for name in self.choices}
        if objective == "time":
            # what no one can measure decides nothing
            integer = {
                name: exact[name] if abs(cost - exact[name]) <= _LAUNCH_SECONDS else cost
                for name, cost in integer.items()
            }
        on = cheapest(exact, integer, self._links, out)
        for name in self.choices:
            if name not in on and name not in out:
                self.reasons.setdefault(name, self._why_not_worth(name, objective))
        return [name for name in self.choices if name in on]

    def _why_not_worth(self, name: str, objective: str) -> str:
        ours, exact = (parts.get(name, Cost()) for parts in (self.in_integers, self.in_float))
        if ours.by(objective) > exact.by(objective):
            return beside(ours, exact, objective)
        saved = cost_text(exact.by(objective) - ours.by(objective), objective)
        return f"integers save {saved}, less than the conversions around it cost"

    # ------------------------------------------------------------------------------------------------- whole models
    def _not_costlier(self, on: Sequence[str]) -> list[str]:
        """The layers of `on` with which the compiled model costs no more than in float; regions of others leave."""
        why = ""
        for _ in range(_ROUNDS):
            if self.wish.objective is None or not on:
                return list(on)
            exact, integer = self._costs(on)
            why, text = self._why_whole_costlier(on, exact, integer, self.wish.objective)
            if not why:
                self.totals = {"float": total(exact).text(), "integers": total(integer).text()} | text
                return list(on)
            on = self._without_worst(on, exact, integer, f"with it {why}", self.wish.objective)
        self.reasons |= dict.fromkeys(on, f"with it {why}")
        return []

    def _why_whole_costlier(
        self, on: Sequence[str], exact: Parts, integer: Parts, objective: str
    ) -> tuple[str, dict[str, str]]:
        """The reason against the model with the layers `on` in integers, "" where there is none, and its time."""
        if objective != "time":
            return why_costlier(total(integer), total(exact), objective), {}
        measured = whole(self.float_model, self._integer_model(on), self.trial.samples[0])
        return measured.text() if measured.slower else "", {"whole": measured.text()}

    def _without_worst(self, on: Sequence[str], exact: Parts, integer: Parts, why: str, objective: str) -> list[str]:
        """The layers without half of the regions that cost more, or those that save least; of one region, layers."""
        regions = _regions(on, self._links)

        def saved(region: Collection[str]) -> float:
            return sum(exact.get(one, Cost()).by(objective) - integer.get(one, Cost()).by(objective) for one in region)

        order = sorted(regions if len(regions) > 1 else [{name} for name in on], key=saved)
        leaving = [region for region in order if saved(region) <= 0] or order
        out = set[str]().union(*leaving[: -(-len(leaving) // 2)])
        self.reasons |= dict.fromkeys(out, why)
        return self._worth(set(self.choices) - (set(on) - out))

    # ------------------------------------------------------------------------------------------------------- budget
    def _within(self, budget: float) -> list[str]:
        """The layers that stay in integers within the budget, on samples held out too."""
        order = self._by_loss(self._worth([]))
        if not order:
            self.loss = self._measured([])
            return []
        numbers, lowest = self.parts.search, 0
        while True:
            count = self._fewest(order, partial(self._holds, order, numbers), lowest, budget)
            for name in order[:count]:
                self.reasons[name] = f"alone it costs {self.alone[name].model_error:.3%} of the result"
            on = self._not_costlier(self._worth(order[:count]))
            self.loss = self._measured(on)
            if self.loss.holds(self.wish.measure, budget):
                return on
            numbers, lowest, self.confirmed = (*self.parts.search, *self.parts.held_out), count + 1, False

    def _by_loss(self, names: Collection[str]) -> list[str]:
        """The layers, those first whose squared error alone is largest for what integers save."""
        objective = self.wish.objective

        def saved(name: str) -> float:
            if objective is None:
                return 1.0
            exact, integer = (parts.get(name, Cost()).by(objective) for parts in (self.in_float, self.in_integers))
            return max(exact - integer, 0.0)

        # errors of layers add up by their squares, as those of independent noise do
        return sorted(names, key=lambda name: -(self.alone[name].model_error ** 2) / (saved(name) or _NO_COST))

    def _holds(self, order: Sequence[str], numbers: Sequence[int], count: int) -> bool:
        assert self.wish.budget is not None
        on = self._worth(order[:count])
        return self.trial.loss(self.choices, on, numbers).holds(self.wish.measure, self.wish.budget)

    def _fewest(self, order: Sequence[str], holds: Any, lowest: int, budget: float) -> int:
        found = fewest_in_float(order, holds, lowest) if lowest < len(order) else len(order)
        if not self._worth(order[:found]):
            raise InputError(
                f"max_loss {budget:g} ({self.wish.measure}) is out of reach: it does not hold with a single layer in "
                "integers that is worth it; allow more, add samples, or try method='best'"
            )
        return found

    def _measured(self, on: Sequence[str]) -> Loss:
        """The loss of the compiled integer model on the samples held out."""
        integer, labels = self._integer_model(on), self.trial.labels
        found = Loss()
        for number in self.parts.held_out:
            sample = self.trial.samples[number]
            ours = integer.run({spec.name: sample[spec.name] for spec in integer.inputs})
            label = None if labels is None else int(labels[number])
            found.add(self.trial.exact(number), [np.asarray(value) for value in ours], label)
        return found

    # -------------------------------------------------------------------------------------------------------- front
    def front(self) -> list[Point]:
        """Points from no layer in float to all, as they leave for the budget, their costs those of layers added up."""
        order = self._by_loss(self.choices)
        counts = sorted({0, len(order), *(round(len(order) * i / _POINTS) for i in range(_POINTS))})
        found = []
        for count in counts:
            out = set(order[:count])
            on = [name for name in self.choices if name not in out]
            loss = self.trial.loss(self.choices, on, self.parts.search).by(self.wish.measure)
            left = total({name: cost for name, cost in self.in_integers.items() if name not in out})
            found.append(Point(count, loss, left + total({name: self.in_float.get(name, Cost()) for name in out})))
        return found


def _regions(on: Sequence[str], links: Collection[tuple[str, str]]) -> list[set[str]]:
    """The layers `on` in sets that tensors connect."""
    region = {name: {name} for name in on}
    for begin, end in links:
        if begin in region and end in region and region[begin] is not region[end]:
            region[begin] |= region[end]
            region.update(dict.fromkeys(region[end], region[begin]))
    return [set(one) for one in {id(one): one for one in region.values()}.values()]
