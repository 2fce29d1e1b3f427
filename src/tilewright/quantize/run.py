"""One run of `quantize` over samples: ranges, improvements of the choices, layers in integers, the loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.quantize.calibrate import Calibration
from tilewright.quantize.cost import OBJECTIVES, Cost, Point
from tilewright.quantize.data import Sample, Split, split
from tilewright.quantize.groups import biases
from tilewright.quantize.improve import Improvements
from tilewright.quantize.layers import Layer, layers
from tilewright.quantize.loss import MEASURES, measure_of
from tilewright.quantize.ranges import CODES, METHODS, Codes, scales_for_bias, weight_scales
from tilewright.quantize.recipe import Choice, Recipe, as_float32
from tilewright.quantize.search import Effect, Trial
from tilewright.quantize.selection import Selection, Wish
from tilewright.quantize.settings import require_known, require_share
from tilewright.quantize.simulation import Simulation
from tilewright.quantize.source import Source

Array = np.ndarray[Any, Any]
#: The method that tries all others, and keeps the one with the least error on the samples for the search.
BEST = "best"
#: How weights get their codes: the nearest ones, or those by which results err least.
ROUNDINGS = ("nearest", "adaptive")


@dataclass(frozen=True)
class Settings:
    """The wishes of a user, as arguments of `quantize`."""

    #: How ranges are found: "minmax", "percentile", "mse", "entropy", or "best" of these.
    method: str = "mse"
    #: "nearest" codes of weights, or "adaptive": those by which results err least, if that lowers the error.
    rounding: str = "nearest"
    #: A share such as 0.005: layers are left in float, those that lose most first, until the loss in `measure` holds,
    #: on other samples as well (`Loss.holds`).
    max_loss: float | None = None
    #: "accuracy" (the default with labels, a class a sample), "argmax" (for one row of classes) or "relative".
    measure: str | None = None
    #: Codes of data, with a zero point: "uint8" or "int8". Weights are int8, a scale a channel.
    activations: str = "uint8"
    #: Add to each layer's channels what integers lose of them on average, if that lowers the error.
    correct_bias: bool = False
    #: Move ranges of channels from data into weights (cross-layer equalization, SmoothQuant), if that does.
    equalize: bool = False
    #: What costs more in integers stays in float: by "time", measured on this machine, "memory", the bytes that kernels
    #: read and write, "energy", estimated, or None.
    objective: str | None = "time"
    #: Find losses and costs for several numbers of layers in float.
    front: bool = False
    threads: int | None = None

    def __post_init__(self) -> None:
        """Raise `InputError` for a value that there is not."""
        for name, known in (
            ("method", (*METHODS, BEST)),
            ("rounding", ROUNDINGS),
            ("activations", tuple(CODES)),
            ("measure", (None, *MEASURES)),
            ("objective", (None, *OBJECTIVES)),
        ):
            require_known(name, getattr(self, name), known)
        require_share(self.max_loss)


@dataclass(frozen=True)
class Outcome:
    """The result of a run: the recipe, and what was measured of each layer, by name."""

    recipe: Recipe
    #: Layers in integers, among the others that are so.
    effects: Mapping[str, Effect]
    #: Each as the only one in integers; empty without a budget.
    alone: Mapping[str, Effect]
    #: Each in float, and in integers among all others; empty without an objective.
    costs: Mapping[str, tuple[Cost, Cost]]
    front: Sequence[Point] = field(default_factory=list)


class Run:
    """One run of `quantize` over samples."""

    def __init__(self, source: Source, samples: Sequence[Sample], labels: Array | None, settings: Settings) -> None:
        self.source, self.samples, self.settings = source, samples, settings
        self.parts: Split = split(len(samples))
        self.found = layers(source.module["main"])
        self.biases = biases(source.module["main"], self.found)
        self.blocked = source.obstacles()
        self.free = [layer for layer in self.found if layer.name not in self.blocked]
        if not self.free:
            raise InputError(
                "the model has no convolution or dense layer with constant weights that could be in integers"
            )
        self.trial = Trial(Simulation(source.module, self.free, settings.threads), samples, labels)
        shapes = [value.shape for value in self.trial.exact(self.parts.search[0])]
        self.measure = measure_of(settings.measure, shapes, labels)

    def outcome(self) -> Outcome:
        """The recipe with its losses, and what led to it."""
        method, choices = self._calibrated()
        choices = self._improved(method, choices)
        ours = self.settings
        wish = Wish(ours.max_loss, self.measure, ours.objective, ours.threads)
        selection = Selection(self.source, self.found, self.trial, self.parts, choices, wish)
        on = selection.select(ours.front)
        recipe = replace(
            selection.recipe(on),
            settings=self._settings(method, choices, selection),
            losses=selection.loss.summary(),
        )
        measured = {
            name: (selection.in_float.get(name, Cost()), selection.in_integers.get(name, Cost()))
            for name in (choices if selection.in_float else ())
        }
        effects = self.trial.effects(choices, on, self.parts.search) if on else {}
        return Outcome(recipe, effects, selection.alone, measured, selection.front() if ours.front else [])

    def _improved(self, method: str, choices: dict[str, Choice]) -> dict[str, Choice]:
        """The choices with what is asked to lower their error, where it does."""
        improve = Improvements(self.source.module, self.free, self.trial, self.parts, self.settings.threads)
        if self.settings.equalize:
            choices = improve.equalized(choices, self._weight_scales, method, self.settings.activations)
        if self.settings.rounding == "adaptive":
            choices = improve.adapted(choices)
        if self.settings.correct_bias:
            choices = improve.corrected(choices)
        return choices

    # ------------------------------------------------------------------------------------------------- calibration
    def _calibrated(self) -> tuple[str, dict[str, Choice]]:
        """The method and what it chooses for each layer."""
        wanted = self.settings.method
        calibration = Calibration(self.source.module, self.free)
        chosen = [self.samples[number] for number in self.parts.calibration]
        calibration.run(chosen, wanted == "minmax", self.settings.threads)
        tried = {one: self._choices(calibration, one) for one in (METHODS if wanted == BEST else (wanted,))}
        if len(tried) == 1:
            return wanted, tried[wanted]
        numbers = self.parts.search
        best = min(tried, key=lambda one: self.trial.loss(tried[one], list(tried[one]), numbers).relative)
        return best, tried[best]

    def _choices(self, calibration: Calibration, method: str) -> dict[str, Choice]:
        codes = calibration.codes(method, self.settings.activations)
        return {
            layer.name: Choice(
                layer.operator, layer.tensors, tuple(codes[name] for name in layer.tensors),
                self._weight_scales(layer, layer.weight, codes[layer.tensors[0]], method) if layer.channels else (),
            )
            for layer in self.free
        }  # fmt: skip

    def _weight_scales(self, layer: Layer, weight: Array, data: Codes, method: str) -> tuple[float, ...]:
        return as_float32(scales_for_bias(weight_scales(weight, method), self.biases[layer.name], data.scale))

    # ----------------------------------------------------------------------------------------------------- results
    def _settings(self, method: str, choices: Mapping[str, Choice], selection: Selection) -> dict[str, Any]:
        rounding = ROUNDINGS[any(one.weight_codes for one in choices.values())]
        corrected = any(one.correction for one in choices.values())
        parts = {name: len(getattr(self.parts, name)) for name in ("calibration", "search", "held_out")}
        bound = selection.loss.bound(self.measure)
        return {
            "method": method, "rounding": rounding, "activations": self.settings.activations, "measure": self.measure,
            "bias_corrected": corrected, "equalize": self.settings.equalize, "max_loss": self.settings.max_loss,
            "bound": bound if np.isfinite(bound) else None,
            "samples": parts, "held_out_served_the_search": not selection.confirmed, "blocked": dict(self.blocked),
            "objective": self.settings.objective, "costs": selection.totals,
        }  # fmt: skip
