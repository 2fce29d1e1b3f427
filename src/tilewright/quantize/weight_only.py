"""Weight-only quantization: dense layers (and tables) with weights of a few bits in blocks, activations in floats.

result = tw.quantize("model.onnx", weights=4, block=32)
result.compile().save("model.tw"); result.save_onnx("model_q4.onnx"); result.recipe.save("recipe.json")

No data is needed. With data, rounding errors are made up for where that lowers the loss, which is measured on samples
held out, and a budget decides which layers have 8 bits, or floats.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Protocol

import numpy as np

from tilewright.compile import compile
from tilewright.errors import InputError, UnsupportedError
from tilewright.quantize.data import DataSource, Sample, inputs_of, read_labels, read_samples, split
from tilewright.quantize.layers import Layer
from tilewright.quantize.loss import MEASURES, Loss, measure_of, signal_to_noise
from tilewright.quantize.search import Trial, fewest_in_float
from tilewright.quantize.settings import require_known, require_share
from tilewright.quantize.weight_codes import BITS, BLOCKS, CodedWeights, block_for, coded_weights, noise
from tilewright.quantize.weight_layers import WeightSimulation, has_coded_weights, moments, weight_layers, with_codes
from tilewright.quantize.weight_recipe import WeightChoice, WeightRecipe, digest, kept_codes
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.model import Model

Array = np.ndarray[Any, Any]
#: The bits of layers that lose too much with fewer, before they keep floats.
_MORE_BITS = 8
#: Levels of accuracy as MatMulNBits has them.
_LEVELS = range(5)


class Source(Protocol):
    """A float model ready to be quantized; `quantize.Source` is one."""

    @property
    def module(self) -> IRModule:
        """The module that layers are looked for in."""
        ...

    @property
    def proto(self) -> Any:
        """Its ONNX model, or None."""
        ...

    @property
    def for_onnx(self) -> bool:
        """True where the result is written as ONNX."""
        ...

    def of_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> Source:
        """The same model with inputs of these shapes."""
        ...


@dataclass(frozen=True)
class WeightSettings:
    """The wishes of a user, as arguments of `quantize`."""

    bits: int = 4
    block: int = 32
    symmetric: bool = True
    tables: bool = False
    accuracy_level: int = 0
    max_loss: float | None = None
    measure: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        """Raise `InputError` for a value that there is not."""
        for name, known in (
            ("bits", BITS), ("block", BLOCKS), ("accuracy_level", _LEVELS), ("measure", (None, *MEASURES)),
        ):  # fmt: skip
            require_known("weights" if name == "bits" else name, getattr(self, name), known)
        require_share(self.max_loss)


@dataclass(frozen=True)
class WeightEffect:
    """The effect of codes on a layer: decibels of signal to noise and relative error, of its result or its weights."""

    decibels: float
    error: float


@dataclass(frozen=True)
class QuantizedWeights:
    """A model with weights of a few bits: `module` for the compiler, the recipe, codes and effects by layer."""

    module: IRModule
    recipe: WeightRecipe
    coded: Mapping[str, CodedWeights]
    effects: Mapping[str, WeightEffect] = field(default_factory=dict)
    #: The ONNX model that the codes can be written into; None for other formats.
    source: Any = None

    def compile(self, **options: Any) -> Model:
        """The compiled model; `options` are those of `tilewright.compile`."""
        return compile(self.module, **options)

    def to_onnx(self) -> Any:
        """The `onnx.ModelProto` with MatMulNBits and GatherBlockQuantized nodes. Raises `UnsupportedError`."""
        if self.source is None:
            raise UnsupportedError(
                "the model is not of ONNX, and only ONNX models are written as ONNX; write an artifact (.tw)"
            )
        # the onnx package is optional
        from tilewright.quantize.onnx_weights import with_weights

        return with_weights(self.source, self.coded, self.recipe.settings["accuracy_level"])

    def save_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write `to_onnx()` to a file."""
        from onnx import save

        save(self.to_onnx(), os.fspath(path))

    @property
    def weight_bytes(self) -> tuple[int, int]:
        """Bytes of the quantized layers' weights in float32, and as codes with scales and zero points."""
        before = sum(one.codes.shape[0] * one.depth * 4 for one in self.coded.values())
        after = sum(
            one.codes.size * one.bits // 8 + one.scales.nbytes + (0 if one.zeros is None else one.zeros.nbytes)
            for one in self.coded.values()
        )
        return before, after


def quantize_weights(
    source: Source, data: DataSource | None, labels: Any, settings: WeightSettings
) -> QuantizedWeights:
    """The model of `source` with weights of a few bits. Raises a `UserError` where there is no layer for them."""
    run = _Run(source, settings)
    if data is None:
        if settings.max_loss is not None:
            raise InputError("max_loss needs data to measure the loss on; pass --data FILE.npz with typical inputs")
        return run.without_data()
    samples = read_samples(data, inputs_of(source.module["main"].params))
    return run.with_data(samples, read_labels(labels, len(samples)))


def weights_by_recipe(source: Source, recipe: WeightRecipe) -> QuantizedWeights:
    """The model of `source` by a recipe of an earlier run. Raises `InputError` where it is another model's."""
    found = {layer.name: layer for layer in _layers(source, bool(recipe.settings["tables"]))}
    for name in recipe.quantized:
        if name not in found:
            raise InputError(
                f"the recipe has the layer {name!r}, which the model has not; it is another model's recipe"
            )
    coded = {name: recipe.choices[name].weights(name, found[name].weight) for name in recipe.quantized}
    return _made(source, list(found.values()), recipe, coded, {})


def _layers(source: Source, tables: bool) -> list[Layer]:
    """The layers with weights that could be codes. Raises `UnsupportedError` where they are already."""
    if has_coded_weights(source.module):
        raise UnsupportedError("the model's weights have few bits already; pass the float model that it was made of")
    return weight_layers(source.module["main"], tables)


def _made(
    source: Source, layers: Sequence[Layer], recipe: WeightRecipe, coded: Mapping[str, CodedWeights],
    effects: Mapping[str, WeightEffect],
) -> QuantizedWeights:  # fmt: skip
    module = with_codes(source.module, layers, coded, recipe.settings["accuracy_level"])
    return QuantizedWeights(module, recipe, coded, effects, source.proto)


class _Run:
    """One run of `quantize` for weights alone."""

    def __init__(self, source: Source, settings: WeightSettings) -> None:
        self.source, self.settings = source, settings
        self.layers = _layers(source, settings.tables)
        self.blocked = self._obstacles()
        self.free = {layer.name: layer for layer in self.layers if layer.name not in self.blocked}
        if not self.free:
            kinds = "dense layer or table" if settings.tables else "dense layer"
            raise InputError(f"the model has no {kinds} with constant float32 weights that could have few bits")
        self.moments: dict[str, Array] = {}
        self.weights = cache(self._weights)

    def _obstacles(self) -> dict[str, str]:
        """The reasons of layers that keep floats whatever they lose, by name."""
        if not self.source.for_onnx:
            return {}
        # the onnx package is optional
        from tilewright.quantize.onnx_weights import obstacles

        reasons = obstacles(self.source.proto, self.settings.bits, self.settings.block)
        found = {layer.name: reasons.get(layer.name, "no node of ONNX by itself") for layer in self.layers}
        return {name: why for name, why in found.items() if why}

    def _weights(self, name: str, bits: int, compensated: bool) -> CodedWeights:
        """The codes of a layer."""
        layer = self.free[name]
        known = self.moments.get(layer.tensors[0]) if compensated else None
        return coded_weights(layer.weight, bits, self.settings.block, self.settings.symmetric, known)

    # ------------------------------------------------------------------------------------------------------- results
    def without_data(self) -> QuantizedWeights:
        """The model with codes by the weights alone, and the noise of each layer's weights."""
        bits = dict.fromkeys(self.free, self.settings.bits)
        recipe = self._recipe(bits, False, dict(self.blocked), {"rounding": "nearest"}, {})
        coded = self._coded(bits, False)
        effects = {name: _effect(*noise(self.free[name].weight, coded[name])) for name in self.free}
        return _made(self.source, self.layers, recipe, coded, effects)

    def with_data(self, samples: Sequence[Sample], labels: Array | None) -> QuantizedWeights:
        """The model with codes after `samples`, within the budget, and the noise of each layer's result."""
        fixed = self.source.of_shapes({name: array.shape for name, array in samples[0].items()})
        free = {layer.name: layer for layer in weight_layers(fixed.module["main"], self.settings.tables)}
        free = {name: free[name] for name in self.free}
        parts = split(len(samples))
        chosen = [samples[number] for number in parts.calibration]
        self.moments = moments(fixed.module, free.values(), chosen, self.settings.threads)
        simulation = WeightSimulation(fixed.module, list(free.values()), self.settings.threads)
        search = _Search(self, Trial(simulation, samples, labels), parts)
        bits, compensated, confirmed, reasons = search.found()
        loss = search.measured(bits, compensated)
        bound = loss.bound(search.measure)
        settings = {
            "rounding": "compensated" if compensated else "nearest", "measure": search.measure,
            "samples": {name: len(getattr(parts, name)) for name in ("calibration", "search", "held_out")},
            "held_out_served_the_search": not confirmed, "bound": bound if np.isfinite(bound) else None,
        }  # fmt: skip
        recipe = self._recipe(bits, compensated, self.blocked | reasons, settings, loss.summary())
        coded = self._coded(bits, compensated)
        found = search.trial.effects(coded, list(coded), parts.search)  # type: ignore[arg-type]
        effects = {name: WeightEffect(one.decibels, one.error) for name, one in found.items()}
        return _made(self.source, self.layers, recipe, coded, effects)

    def _coded(self, bits: Mapping[str, int], compensated: bool) -> dict[str, CodedWeights]:
        return {name: self.weights(name, count, compensated) for name, count in bits.items() if count}

    def _recipe(
        self, bits: Mapping[str, int], compensated: bool, reasons: Mapping[str, str], settings: Mapping[str, Any],
        losses: Mapping[str, float],
    ) -> WeightRecipe:  # fmt: skip
        ours = {
            "weights": self.settings.bits, "block": self.settings.block, "symmetric": self.settings.symmetric,
            "tables": self.settings.tables, "accuracy_level": self.settings.accuracy_level,
            "max_loss": self.settings.max_loss,
        }  # fmt: skip
        made = {}
        for layer in self.layers:
            count = bits.get(layer.name, 0)
            found = self.weights(layer.name, count, True) if compensated and count else None
            made[layer.name] = WeightChoice(
                layer.operator, count or self.settings.bits,
                block_for(layer.weight.shape[1], self.settings.block), self.settings.symmetric, digest(layer.weight),
                "" if count else reasons[layer.name], () if found is None else kept_codes(found),
            )  # fmt: skip
        return WeightRecipe(made, ours | dict(settings), losses)


def _effect(exact: float, error: float) -> WeightEffect:
    return WeightEffect(signal_to_noise(exact, error), float((error / max(exact, 1e-300)) ** 0.5))


class _Search:
    """The choice of rounding and of the bits of each layer, by trials on samples."""

    def __init__(self, run: _Run, trial: Trial, parts: Any) -> None:
        self.run, self.trial, self.parts = run, trial, parts
        self.names = list(run.free)
        shapes = [value.shape for value in trial.exact(parts.search[0])]
        self.measure = measure_of(run.settings.measure, shapes, trial.labels)

    def found(self) -> tuple[dict[str, int], bool, bool, dict[str, str]]:
        """Bits by layer (0: floats), the rounding (True: compensated), False if held-out samples served, reasons."""
        least = self.run.settings.bits
        even = dict.fromkeys(self.names, least)
        compensated = bool(self.run.moments) and self._relative(even, True) < self._relative(even, False)
        budget = self.run.settings.max_loss
        if budget is None:
            return even, compensated, True, {}
        choices: Mapping[str, Any] = self.run._coded(even, compensated)
        alone = self.trial.alone(choices, self.parts.search)
        order = sorted(self.names, key=lambda name: -alone[name].model_error)
        bits, confirmed = self._within(budget, order, compensated)
        return bits, compensated, confirmed, {
            name: f"alone it costs {alone[name].model_error:.3%} of the result" for name in self.names if not bits[name]
        }  # fmt: skip

    def _within(self, budget: float, order: Sequence[str], compensated: bool) -> tuple[dict[str, int], bool]:
        """The bits of each layer within the budget: first layers of `order` get 8 bits, then floats."""
        least_bits = self.run.settings.bits
        steps = [(name, bits) for bits in (_MORE_BITS, 0) if bits == 0 or bits > least_bits for name in order]

        def bits_after(count: int) -> dict[str, int]:
            return dict.fromkeys(self.names, least_bits) | dict(steps[:count])

        def holds(numbers: Sequence[int], count: int) -> bool:
            return self._loss(bits_after(count), compensated, numbers).holds(self.measure, budget)

        numbers, least, confirmed = self.parts.search, 0, True
        while True:
            count = len(steps)
            if least < count:
                count = fewest_in_float([name for name, _ in steps], partial(holds, numbers), least)
            if count == len(steps):
                raise InputError(
                    f"max_loss {budget:g} ({self.measure}) is out of reach: it does not hold with the weights of a "
                    "single layer in 8 bits; allow more, or add samples"
                )
            if self.measured(bits_after(count), compensated).holds(self.measure, budget):
                return bits_after(count), confirmed
            numbers, least, confirmed = (*self.parts.search, *self.parts.held_out), count + 1, False

    def _relative(self, bits: Mapping[str, int], compensated: bool) -> float:
        return self._loss(bits, compensated, self.parts.search).relative

    def _loss(self, bits: Mapping[str, int], compensated: bool, numbers: Sequence[int]) -> Loss:
        choices: Mapping[str, Any] = self.run._coded(bits, compensated)
        return self.trial.loss(choices, list(choices), numbers)

    def measured(self, bits: Mapping[str, int], compensated: bool) -> Loss:
        """The loss of the compiled model on the samples held out."""
        settings = self.run.settings
        module = with_codes(
            self.run.source.module, self.run.layers, self.run._coded(bits, compensated), settings.accuracy_level
        )
        ours, found = compile(module, threads=settings.threads), Loss()
        for number in self.parts.held_out:
            sample = self.trial.samples[number]
            values = ours.run({spec.name: sample[spec.name] for spec in ours.inputs})
            label = None if self.trial.labels is None else int(self.trial.labels[number])
            found.add(self.trial.exact(number), [np.asarray(value) for value in values], label)
        return found
