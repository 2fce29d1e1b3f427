"""`tw.quantize(model, data)`: calibrate, choose what is in integers, measure the loss on samples held out.

result = tw.quantize("model.onnx", "images.npz", max_loss=0.005)
result.compile().save("model.tw"); result.save_onnx("model_int8.onnx"); result.recipe.save("recipe.json")
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.compile import compile
from tilewright.errors import UnsupportedError
from tilewright.frontend.formats.import_model import Entry, import_model
from tilewright.frontend.formats.table import ModelSource
from tilewright.quantize.cost import Cost, Point
from tilewright.quantize.data import DataSource, inputs_of, read_labels, read_samples
from tilewright.quantize.plot import picture
from tilewright.quantize.recipe import Recipe, read_recipe
from tilewright.quantize.run import Run, Settings
from tilewright.quantize.search import Effect
from tilewright.quantize.source import Source
from tilewright.quantize.trained import with_trained_layers
from tilewright.quantize.weight_only import QuantizedWeights, WeightSettings, quantize_weights, weights_by_recipe
from tilewright.quantize.weight_recipe import WeightRecipe, read_weight_recipe
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.model import Model
from tilewright.support.open_sizes import Shapes

AnyRecipe = Recipe | WeightRecipe


@dataclass(frozen=True)
class Quantized:
    """A model with layers in integers: `module` for the compiler, the recipe, and the effect of each layer, by name."""

    module: IRModule
    recipe: Recipe
    effects: Mapping[str, Effect] = field(default_factory=dict)
    #: The effect of each layer as the only one in integers, with a budget; its costs in float and in integers.
    alone: Mapping[str, Effect] = field(default_factory=dict)
    costs: Mapping[str, tuple[Cost, Cost]] = field(default_factory=dict)
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
    model: ModelSource, data: DataSource | None = None, *, labels: Any = None,
    recipe: AnyRecipe | str | os.PathLike[str] | None = None, method: str = "mse", rounding: str = "nearest",
    max_loss: float | None = None, measure: str | None = None, activations: str = "uint8", correct_bias: bool = False,
    equalize: bool = False, objective: str | None = "time", front: bool = False, weights: int | None = None,
    block: int = 32, symmetric: bool = True, tables: bool = False, accuracy_level: int = 0, for_onnx: bool = False,
    input_shapes: Shapes | None = None, signature: str | None = None, outputs: str | Sequence[str] | None = None,
    threads: int | None = None,
) -> Quantized | QuantizedWeights:  # fmt: skip
    """Quantize `model` to 8 bits after samples of its inputs, or its weights alone to few bits.

    `data` is the path of an .npz file or a folder of them, arrays by the names of inputs with a leading axis of
    samples, or a sequence of mappings. Half of the samples find the ranges, a quarter the layers that stay in float, a
    quarter is held out to measure the loss. `method` to `front` are those of `Settings`. `recipe`, one of an earlier
    run or its file, needs no data and makes the same model again. `for_onnx` leaves in float what ONNX has no
    quantized form of. The others are as in `tilewright.compile`. With `weights`, a number of bits, only weights get
    codes, as `WeightSettings` has it; no data is needed.

    Raises a `UserError` for data that does not fit, and where no layer in integers keeps to `max_loss`.
    """
    settings = Settings(
        method, rounding, max_loss, measure, activations, correct_bias, equalize, objective, front, threads
    )
    few = None
    if weights is not None:
        few = WeightSettings(weights, block, symmetric, tables, accuracy_level, max_loss, measure, threads)
    entry = Entry.of(signature, outputs)
    if recipe is not None:
        return _by_recipe(model, input_shapes, entry, for_onnx, recipe)
    source = Source.of(model, input_shapes, entry, for_onnx)
    return _by_samples(source, data, labels, settings) if few is None else quantize_weights(source, data, labels, few)


def _by_recipe(
    model: ModelSource, shapes: Shapes | None, entry: Entry, for_onnx: bool,
    recipe: AnyRecipe | str | os.PathLike[str],
) -> Quantized | QuantizedWeights:  # fmt: skip
    """The model as an earlier run chose it."""
    if isinstance(recipe, str | os.PathLike):
        recipe = read_weight_recipe(recipe) or read_recipe(recipe)
    if isinstance(recipe, Recipe) and recipe.trained:
        mod = import_model(model, shapes, entry)
        return Quantized(with_trained_layers(mod, recipe.trained, recipe.settings["batch_norms"]), recipe)
    source = Source.of(model, shapes, entry, for_onnx)
    if isinstance(recipe, WeightRecipe):
        return weights_by_recipe(source, recipe)
    return Quantized(source.rewritten(recipe), recipe, source=source.proto)


def _by_samples(source: Source, data: DataSource | None, labels: Any, settings: Settings) -> Quantized:
    """The model with the layers in integers that its samples choose."""
    samples = read_samples(data, inputs_of(source.module["main"].params))
    fixed = source.of_shapes({name: array.shape for name, array in samples[0].items()})
    found = Run(fixed, samples, read_labels(labels, len(samples)), settings).outcome()
    module = source.rewritten(found.recipe)
    return Quantized(module, found.recipe, found.effects, found.alone, found.costs, source.proto, found.front)
