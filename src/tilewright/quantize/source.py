"""A float model ready to be quantized: read, with its batch norms in the weights, and the layers that cannot be.

Source.of("model.onnx", None, Entry.of(None, None), for_onnx=False).rewritten(recipe)    is a module with integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.frontend.formats.import_model import Entry, import_model
from tilewright.frontend.formats.table import ModelSource, frontend_for
from tilewright.quantize.data import inputs_of
from tilewright.quantize.equalize import equalize as equalized
from tilewright.quantize.layers import layers, prepared
from tilewright.quantize.recipe import Recipe
from tilewright.quantize.rewrite import rewrite
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import calls
from tilewright.support.open_sizes import Shapes


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

    def rewritten(self, recipe: Recipe) -> IRModule:
        """The module by `recipe`."""
        mod, choices = self.module, dict(recipe.choices)
        if factors := {name: one.factors for name, one in choices.items() if one.factors}:
            mod, divided = equalized(mod, layers(mod["main"]), factors)
            choices |= {name: choices[name].divided(by) for name, by in divided.items() if name in choices}
        return rewrite(mod, layers(mod["main"]), Recipe(choices))
