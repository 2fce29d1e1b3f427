"""`tw.quantize(model, data)`: calibrate, choose what is in integers, measure the loss on samples held out.

result = tw.quantize("model.onnx", "images.npz", max_loss=0.005)
result.compile().save("model.tw"); result.save_onnx("model_int8.onnx"); result.recipe.save("recipe.json")
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from tilewright.compile import compile
from tilewright.errors import InputError, UnsupportedError
from tilewright.frontend.formats.import_model import Entry, import_model
from tilewright.frontend.formats.table import ModelSource, frontend_for
from tilewright.quantize.calibrate import Calibration
from tilewright.quantize.cost import OBJECTIVES, Cost, Point, costs, least, total, why_costlier
from tilewright.quantize.data import DataSource, Sample, Split, inputs_of, read_labels, read_samples, split
from tilewright.quantize.equalize import equalize as equalized
from tilewright.quantize.groups import biases
from tilewright.quantize.improve import Improvements
from tilewright.quantize.layers import Layer, layers, prepared
from tilewright.quantize.loss import MEASURES, Loss, default_measure
from tilewright.quantize.plot import picture
from tilewright.quantize.ranges import CODES, METHODS, Codes, scales_for_bias, weight_scales
from tilewright.quantize.recipe import Choice, Recipe, as_float32, read_recipe
from tilewright.quantize.rewrite import rewrite
from tilewright.quantize.search import Effect, Trial, fewest_in_float
from tilewright.quantize.settings import require_known, require_share
from tilewright.quantize.simulation import Simulation
from tilewright.quantize.trained import with_trained_layers
from tilewright.quantize.weight_only import QuantizedWeights, WeightSettings, quantize_weights, weights_by_recipe
from tilewright.quantize.weight_recipe import WeightRecipe, read_weight_recipe
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import calls
from tilewright.runtime.model import Model
from tilewright.support.open_sizes import Shapes

Array = np.ndarray[Any, Any]
#: The method that tries all others, and keeps the one with the least error on the samples for the search.
BEST = "best"
#: How weights get their codes: the nearest ones, or those by which results err least.
ROUNDINGS = ("nearest", "adaptive")
#: Times that layers leave for their cost and what is left is measured again: neighbours change with conversions.
_ROUNDS = 2
#: Points of the front between all layers in integers and all in float.
_POINTS = 8


@dataclass(frozen=True)
class Settings:
    """The wishes of a user, as arguments of `quantize`."""

    method: str = "mse"
    rounding: str = "nearest"
    max_loss: float | None = None
    measure: str | None = None
    activations: str = "uint8"
    correct_bias: bool = False
    equalize: bool = False
    objective: str | None = "time"
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
class Quantized:
    """A model with layers in integers: `module` for the compiler, the recipe, and the effect of each layer, by name."""

    module: IRModule
    recipe: Recipe
    effects: Mapping[str, Effect] = field(default_factory=dict)
    #: The ONNX model that the recipe can be written into; None for other formats.
    source: Any = None
    #: Losses and costs from all layers in integers to all in float, of `quantize(..., front=True)`.
    front: Sequence[Point] = ()

    def picture(self) -> str:
        """The front and the loss of each layer as SVG."""
        return picture(self.front, self.effects)

    def compile(self, **options: Any) -> Model:
        """The compiled model; `options` are those of `tilewright.compile`."""
        return compile(self.module, **options)

    def to_onnx(self) -> Any:
        """The `onnx.ModelProto` with QuantizeLinear and DequantizeLinear nodes. Raises `UnsupportedError`."""
        if self.source is None:
            raise UnsupportedError(
                "the model is not of ONNX, and only ONNX models are written as ONNX; write an artifact (.tw)"
            )
        # the onnx package is optional
        from tilewright.quantize.onnx_file import with_recipe

        return with_recipe(self.source, self.recipe)

    def save_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write `to_onnx()` to a file."""
        from onnx import save

        save(self.to_onnx(), os.fspath(path))


def quantize(
    model: ModelSource,
    data: DataSource | None = None,
    *,
    method: str = "mse",
    rounding: str = "nearest",
    max_loss: float | None = None,
    measure: str | None = None,
    labels: Any = None,
    recipe: Recipe | WeightRecipe | str | os.PathLike[str] | None = None,
    activations: str = "uint8",
    correct_bias: bool = False,
    weights: int | None = None,
    block: int = 32,
    symmetric: bool = True,
    tables: bool = False,
    accuracy_level: int = 0,
    equalize: bool = False,
    objective: str | None = "time",
    front: bool = False,
    for_onnx: bool = False,
    input_shapes: Shapes | None = None,
    signature: str | None = None,
    outputs: str | Sequence[str] | None = None,
    threads: int | None = None,
) -> Quantized | QuantizedWeights:
    """Quantize `model` to 8 bits after samples of its inputs.

    `data` is the path of an .npz file or a folder of them, arrays by the names of inputs with a leading axis of
    samples, or a sequence of mappings. Half of the samples find the ranges, a quarter the layers that stay in float, a
    quarter is held out to measure the loss. `method` is "minmax", "percentile", "mse", "entropy", or "best" of these.
    Convolutions and dense layers with constant weights get int8 weights of a scale a channel, and data of the type
    `activations` ("uint8" or "int8") with a zero point. With `max_loss`, a share such as 0.005, layers are left in
    float, those that lose most first, until the loss in `measure` holds: "accuracy" (the default with `labels`, a class
    a sample), "argmax" (for one row of classes) or "relative". `rounding` of weights is "nearest" or "adaptive": codes
    by which the layers' results on the samples for ranges err least, if that lowers the error. `correct_bias` adds to
    each layer's channels what integers lose of them on average, if that does; `equalize` moves ranges of channels from
    data into weights (cross-layer equalization, SmoothQuant), if that does. Layers that cost more in integers stay in
    float, by the `objective`: "time", measured on this machine, "memory", the bytes that kernels read and write,
    "energy", estimated, or None. `front` finds losses and costs for several numbers of layers in float. `recipe`, one
    of an earlier run or its file, needs no data and makes the same model again. `for_onnx` leaves in float what ONNX
    has no quantized form of. The others are as in `tilewright.compile`.

    With `weights`, a number of bits, only weights get codes, in blocks of `block` along the depth with a scale (and,
    unless `symmetric`, a zero point) each: those of dense layers, and with `tables` those of tables that rows are
    picked of. No data is needed; with data rounding errors are made up for, and `max_loss` can be held.
    `accuracy_level` is that of MatMulNBits.

    Raises a `UserError` for data that does not fit, and where no layer in integers keeps to `max_loss`.
    """
    settings = Settings(
        method, rounding, max_loss, measure, activations, correct_bias, equalize, objective, front, threads
    )
    if isinstance(recipe, str | os.PathLike):
        recipe = read_weight_recipe(recipe) or read_recipe(recipe)
    if isinstance(recipe, Recipe) and recipe.trained:
        mod = import_model(model, input_shapes, Entry.of(signature, outputs))
        return Quantized(with_trained_layers(mod, recipe.trained, recipe.settings["batch_norms"]), recipe)
    of_weights = None
    if weights is not None:
        of_weights = WeightSettings(weights, block, symmetric, tables, accuracy_level, max_loss, measure, threads)
    source = Source.of(model, input_shapes, Entry.of(signature, outputs), for_onnx)
    if recipe is not None:
        return weights_by_recipe(source, recipe) if isinstance(recipe, WeightRecipe) else source.quantized(recipe)
    if of_weights is not None:
        return quantize_weights(source, data, labels, of_weights)
    inputs = inputs_of(source.module["main"].params)
    samples = read_samples(data, inputs)
    fixed = source.of_shapes({name: array.shape for name, array in samples[0].items()})
    run = _Run(fixed, samples, read_labels(labels, len(samples)), settings)
    chosen, effects = run.recipe()
    return replace(source.quantized(chosen), effects=effects, front=run.front)


@dataclass(frozen=True)
class Source:
    """A float model ready to be quantized: `module` is prepared, `proto` its ONNX model."""

    module: IRModule
    model: ModelSource
    entry: Entry
    proto: Any
    for_onnx: bool

    @staticmethod
    def of(model: ModelSource, shapes: Shapes | None, entry: Entry, for_onnx: bool) -> Source:
        """The model in any of the forms `compile` takes. Raises `UnsupportedError` where it is quantized already."""
        proto = None
        if not isinstance(model, IRModule) and frontend_for(model, entry.signature).name == "onnx":
            # the onnx package is optional
            from tilewright.quantize.onnx_file import read_for_recipe

            model = proto = read_for_recipe(model, for_onnx)
        elif for_onnx:
            raise UnsupportedError(
                "only ONNX models are written as ONNX; write an artifact (.tw) of models of other formats"
            )
        mod = import_model(model, shapes, entry)
        if any(str(getattr(call.op, "name", "")).startswith("qnn.") for call in calls(mod["main"].body)):
            raise UnsupportedError("the model is quantized already; pass the float model that it was made of")
        return Source(prepared(mod, fold_scales=proto is None), model, entry, proto, for_onnx)

    def of_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> Source:
        """The same model with inputs of these shapes."""
        inputs = inputs_of(self.module["main"].params)
        if all(one.shape == shapes[one.name] for one in inputs):
            return self
        mod = import_model(self.model, shapes, self.entry)
        return replace(self, module=prepared(mod, fold_scales=self.proto is None))

    def obstacles(self) -> dict[str, str]:
        """The reasons of layers that stay in float whatever they lose, by name."""
        if not self.for_onnx:
            return {}
        # the onnx package is optional
        from tilewright.quantize.onnx_file import quantizable

        reasons = quantizable(self.proto)
        names = [layer.name for layer in layers(self.module["main"])]
        found = {name: reasons.get(name, "no node of ONNX by itself") for name in names}
        return {name: why for name, why in found.items() if why}

    def quantized(self, recipe: Recipe) -> Quantized:
        """The model by `recipe`."""
        mod, choices = self.module, dict(recipe.choices)
        if factors := {name: one.factors for name, one in choices.items() if one.factors}:
            mod, divided = equalized(mod, layers(mod["main"]), factors)
            choices |= {name: choices[name].divided(by) for name, by in divided.items() if name in choices}
        return Quantized(rewrite(mod, layers(mod["main"]), Recipe(choices)), recipe, {}, self.proto)


def _by_loss(choices: Mapping[str, Choice], alone: Mapping[str, Effect]) -> list[str]:
    """The layers, those first that cost the model's results most alone."""
    return sorted(choices, key=lambda name: -alone[name].model_error)


class _Run:
    """One run of `quantize` over samples."""

    def __init__(self, source: Source, samples: Sequence[Sample], labels: Array | None, settings: Settings) -> None:
        self.source, self.samples, self.labels, self.settings = source, samples, labels, settings
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
        self.front: list[Point] = []
        self.totals: dict[str, str] = {}
        self.in_float: dict[str, Cost] = {}
        self.in_integers: dict[str, Cost] = {}
        self.measure = settings.measure or default_measure(shapes, labels)

    def recipe(self) -> tuple[Recipe, dict[str, Effect]]:
        """The recipe with its losses, and the effect of each layer in integers beside the others."""
        method, choices = self._calibrated()
        budget = self.settings.max_loss
        improve = Improvements(self.source.module, self.free, self.trial, self.parts, self.settings.threads)
        if self.settings.equalize:
            choices = improve.equalized(choices, self._weight_scales, method, self.settings.activations)
        if self.settings.rounding == "adaptive":
            choices = improve.adapted(choices)
        if self.settings.correct_bias:
            choices = improve.corrected(choices)
        every = choices
        reasons = dict(self.blocked) | self._costlier(choices)
        choices = {name: one for name, one in choices.items() if name not in reasons}
        wanted = budget is not None or self.settings.front
        alone = self.trial.alone(choices, self.parts.search) if wanted else {}
        on, confirmed = list(choices), True
        if self.settings.front:
            self.front = self._front(choices, alone)
        if budget is not None and choices:
            on, confirmed = self._within(budget, choices, alone, reasons)
            for name in choices:
                if name not in on:
                    reasons[name] = f"alone it costs {alone[name].model_error:.3%} of the result"
        made = self._made(every, reasons)
        loss = self._measured(made)
        made = replace(
            made,
            settings=self._settings(method, choices, confirmed),
            losses=loss.summary(),
        )
        return made, self.trial.effects(choices, on, self.parts.search)

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

    # -------------------------------------------------------------------------------------------------------- costs
    def _costlier(self, choices: Mapping[str, Choice]) -> dict[str, str]:
        """The reasons of the layers that cost more in integers than in float, by name; of all if the model does."""
        objective = self.settings.objective
        if objective is None and not self.settings.front:
            return {}
        out: dict[str, str] = {}
        for _ in range(_ROUNDS):
            recipe = self._made(choices, out)
            integer = compile(self.source.quantized(recipe).module, threads=self.settings.threads)
            measured = partial(costs, (self.float_model, integer), self.samples[0], self.found, ([], recipe.quantized))
            self.in_float, self.in_integers = measured()
            if slow := self._slower(recipe, objective):  # a busy machine: once more
                again = measured()
                self.in_float, self.in_integers = least(self.in_float, again[0]), least(self.in_integers, again[1])
                slow = self._slower(recipe, objective)
            if not slow:
                break
            out |= slow
        if objective and len(out) < len(choices) and (why := why_costlier(*self._totals(), objective)):
            out = dict.fromkeys(choices, f"of the whole model, {why}")
        self.totals = {"float": self._totals()[1].text(), "integers": self._totals()[0].text()}
        return out

    @cached_property
    def float_model(self) -> Model:
        """The compiled float model, whose cost is measured beside each choice of layers."""
        return compile(self.source.module, threads=self.settings.threads)

    def _slower(self, recipe: Recipe, objective: str | None) -> dict[str, str]:
        """The layers of `recipe` in integers that cost more so, with the reasons."""
        found = {}
        for name in recipe.quantized if objective is not None else ():
            ours, exact = (parts.get(name, Cost()) for parts in (self.in_integers, self.in_float))
            found[name] = why_costlier(ours, exact, objective or "")
        return {name: why for name, why in found.items() if why}

    def _totals(self) -> tuple[Cost, Cost]:
        return total(self.in_integers), total(self.in_float)

    def _front(self, choices: Mapping[str, Choice], alone: Mapping[str, Effect]) -> list[Point]:
        """Points from no layer in float to all, those that lose most first, their costs those of layers added up."""
        order = _by_loss(choices, alone)
        counts = sorted({0, len(order), *(round(len(order) * i / _POINTS) for i in range(_POINTS))})
        found = []
        for count in counts:
            out = set(order[:count])
            loss = self._loss(choices, [name for name in choices if name not in out], self.parts.search)
            left = total({name: cost for name, cost in self.in_integers.items() if name not in out})
            found.append(Point(count, loss, left + total({name: self.in_float.get(name, Cost()) for name in out})))
        return found

    # ------------------------------------------------------------------------------------------------------ budget
    def _within(
        self,
        budget: float,
        choices: Mapping[str, Choice],
        alone: Mapping[str, Effect],
        reasons: Mapping[str, str],
    ) -> tuple[list[str], bool]:
        """The layers that stay in integers within the budget; False if the samples held out served the search too."""
        order = _by_loss(choices, alone)

        def kept(count: int) -> list[str]:
            out = set(order[:count])
            return [name for name in choices if name not in out]

        def holds(numbers: Sequence[int], count: int) -> bool:
            return self._loss(choices, kept(count), numbers) <= budget

        numbers, least, confirmed = self.parts.search, 0, True
        while True:
            count = self._fewest(order, partial(holds, numbers), least, budget)
            made = self._made(choices, dict.fromkeys([*reasons, *order[:count]], "budget"))
            if self._measured(made).by(self.measure) <= budget:
                return kept(count), confirmed
            numbers, least, confirmed = (*self.parts.search, *self.parts.held_out), count + 1, False

    def _fewest(self, order: Sequence[str], holds: Any, least: int, budget: float) -> int:
        found = fewest_in_float(order, holds, least) if least < len(order) else len(order)
        if found == len(order):
            raise InputError(
                f"max_loss {budget:g} ({self.measure}) is out of reach: it does not hold with a single layer in "
                "integers; allow more, add samples, or try method='best'"
            )
        return found

    def _loss(self, choices: Mapping[str, Choice], on: Sequence[str], numbers: Sequence[int]) -> float:
        return self.trial.loss(choices, on, numbers).by(self.measure)

    # ----------------------------------------------------------------------------------------------------- results
    def _made(self, choices: Mapping[str, Choice], reasons: Mapping[str, str]) -> Recipe:
        made = {}
        for layer in self.found:
            if layer.name in choices:
                made[layer.name] = replace(choices[layer.name], in_float=reasons.get(layer.name, ""))
        return Recipe(made)

    def _measured(self, recipe: Recipe) -> Loss:
        """The loss of the compiled integer model on the samples held out."""
        integer = compile(self.source.quantized(recipe).module, threads=self.settings.threads)
        found = Loss()
        for number in self.parts.held_out:
            sample = self.samples[number]
            ours = integer.run({spec.name: sample[spec.name] for spec in integer.inputs})
            label = None if self.labels is None else int(self.labels[number])
            found.add(self.trial.exact(number), [np.asarray(value) for value in ours], label)
        return found

    def _settings(self, method: str, choices: Mapping[str, Choice], confirmed: bool) -> dict[str, Any]:
        rounding = ROUNDINGS[any(one.weight_codes for one in choices.values())]
        corrected = any(one.correction for one in choices.values())
        parts = {name: len(getattr(self.parts, name)) for name in ("calibration", "search", "held_out")}
        return {
            "method": method, "rounding": rounding, "activations": self.settings.activations, "measure": self.measure,
            "bias_corrected": corrected, "equalize": self.settings.equalize, "max_loss": self.settings.max_loss,
            "samples": parts, "held_out_served_the_search": not confirmed, "blocked": dict(self.blocked),
            "objective": self.settings.objective, "costs": self.totals,
        }  # fmt: skip
