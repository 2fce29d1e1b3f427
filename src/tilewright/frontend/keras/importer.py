"""The walk over a Keras model: layers applied in the order of its graph, masks beside tensors, problems collected."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.finish import Finisher, fold_call
from tilewright.frontend.graph_walk import UNAVAILABLE, Unavailable, attempt
from tilewright.frontend.keras import graph
from tilewright.frontend.keras.archive import Archive
from tilewright.frontend.keras.layer import Layer, LayerImporter, Operation, call_operation, flatten, map_tensors
from tilewright.frontend.keras.registry import find_layer, find_operation
from tilewright.frontend.unsupported import Unsupported
from tilewright.relay.ir.expr import Expr, Var, var
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of

#: Layers and operations applied at most, those of a shared layer as often as it is used.
_MOST_CALLS = 1 << 17
#: Layers that draw random numbers or gather statistics where they are called in training mode.
_TRAINING = (
    "Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "GaussianNoise", "GaussianDropout",
    "AlphaDropout", "BatchNormalization", "SpectralNormalization",
)  # fmt: skip


class Importer(LayerImporter):
    """Converts one model; `missing` gathers what cannot be converted, `next_states` what variables become."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.legacy = archive.legacy
        self.missing = Unsupported()
        self.states: dict[str, Var] = {}
        self.next_states: dict[str, Expr] = {}
        self._masks: dict[Expr, Expr] = {}
        self._finisher = Finisher(fold_call)
        self._calls = 0

    # ------------------------------------------------------------------------------------------------- what is inside
    def described(self, item: Any, where: str) -> tuple[str, dict[str, Any], bool]:
        """The class, the configuration and whether it is of another package, of a serialized layer."""
        if not isinstance(item, dict) or not isinstance(item.get("class_name"), str):
            raise ModelError(f"{where} is no serialized layer")
        config = item.get("config")
        if not isinstance(config, dict):
            raise ModelError(f"{where}: {item['class_name']} has no configuration")
        return graph.class_of(item), config, graph.is_custom(item)

    def state(self, name: str, shape: Sequence[int], dtype: str) -> Expr:
        """The variable `name` when the run begins. Raises `UnsupportedError` where its shape is symbolic."""
        if name not in self.states:
            if not all(isinstance(extent, int) for extent in shape):
                raise UnsupportedError(f"the state {name!r} of symbolic shape; pass the batch with input_shapes")
            self.states[name] = var(name, TensorType(shape, dtype))
        return self.next_states.get(name, self.states[name])

    def asset_lines(self, layer: Layer, name: str) -> list[str] | None:
        """The lines of a file that belongs to a layer, or None."""
        ends = [key for key in self.archive.assets if key.endswith(f"/{name}") and layer.asset_path in key]
        if len(ends) != 1:
            return None
        return self.archive.assets[ends[0]].decode("utf-8", "replace").splitlines()

    def with_mask(self, value: Expr, mask: Any) -> Expr:
        """`value`, which `mask` goes on with, or none."""
        self._masks.pop(value, None)
        if isinstance(mask, Expr):
            self._masks[value] = mask
        return value

    def mask_of(self, value: Any) -> Any:
        """The mask of a tensor, or None; of a list, a list."""
        if isinstance(value, Expr):
            return self._masks.get(value)
        return [self.mask_of(item) for item in value] if isinstance(value, list | tuple) else None

    # ------------------------------------------------------------------------------------------------------- the calls
    def apply(self, layer: Layer, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A layer applied to values. Its result is finished: its calls have the layer's name.

        `UNAVAILABLE` where the layer cannot be converted, which is noted.
        """
        if any(isinstance(leaf, Unavailable) for leaf in flatten([*args, *kwargs.values()])):
            return UNAVAILABLE
        entry = find_layer(layer.class_name, layer.custom)
        if entry is None:
            return self._no_converter(layer)
        layer.has_mask = False
        given: dict[str, Any] = {}

        def convert() -> Any:
            whole = layer.class_name in graph.MODELS
            before = list(args) if whole else [layer.input(arg) for arg in args]
            named = dict(kwargs) if whole else {key: layer.input(value) for key, value in kwargs.items()}
            given.update(self._arguments(layer, entry.convert, args, named))
            return entry.convert(layer, *before, **given)

        layer.arguments = flatten([*args, *kwargs.values()])
        result = self._run(layer, convert)
        if result is UNAVAILABLE:
            return result
        first = args[0] if args else next(iter(kwargs.values()), None)
        if layer.has_mask:
            self._attach(result, layer.mask)
        elif entry.passes_mask:
            self._attach(result, given["mask"] if given.get("mask") is not None else self.mask_of(first))
        return result

    def operation(self, item: Operation, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """An operation of `keras.ops` applied to values."""
        if any(isinstance(leaf, Unavailable) for leaf in flatten([*args, *kwargs.values()])):
            return UNAVAILABLE
        converter = find_operation(item.class_name)
        if converter is None:
            self.missing.add(item.class_name, item.label, f"no converter for the operation {item.class_name}")
            return UNAVAILABLE
        fixed = {key: value for key, value in item.config.items() if key not in ("name", "dtype") or key == "dtype"}
        fixed.pop("name", None)
        known = inspect.signature(converter).parameters
        if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in known.values()):
            fixed = {key: value for key, value in fixed.items() if key in known}
        item.arguments = flatten([*args, *kwargs.values()])
        return self._run(item, lambda: call_operation(converter, item, args, {**fixed, **kwargs}))

    def _no_converter(self, layer: Layer) -> Unavailable:
        reason = f"no converter for the layer {layer.class_name}"
        if layer.custom:
            reason += ", which is not of Keras; a plug-in can bring one (docs/plugins.md)"
        self.missing.add(layer.class_name, layer.label, reason)
        return UNAVAILABLE

    def _arguments(
        self, layer: Layer, converter: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """The keyword arguments of a converter: those given, and the masks of tensors that it requests."""
        given = dict(kwargs)
        parameters = list(inspect.signature(converter).parameters)
        training = given.pop("training", None)
        if training and layer.class_name in _TRAINING and layer.get("rate", 1) and layer.get("trainable", True):
            layer.unsupported("training=True, in which it draws random numbers or changes statistics,")
        by_name = dict(zip(parameters[1:], args)) | given
        for name in parameters[1:]:
            if name == "mask" and given.get("mask") is None and len(args) < parameters.index("mask"):
                given["mask"] = _some(self.mask_of(args[0] if args else next(iter(given.values()), None)))
            elif name.endswith("_mask") and name != "attention_mask" and by_name.get(name) is None:
                tensor = by_name.get(name.removesuffix("_mask"))
                if tensor is not None:
                    given[name] = self.mask_of(tensor)
        if "mask" not in parameters and "mask" in given:
            given.pop("mask")
        return given

    def _attach(self, result: Any, mask: Any) -> None:
        """Note the masks of results, one each where there are several."""
        if isinstance(result, Expr):
            while isinstance(mask, list | tuple):
                mask = mask[0] if mask else None
            if isinstance(mask, Expr):
                self._masks[result] = mask
        elif isinstance(result, list | tuple):
            masks = mask if isinstance(mask, list | tuple) else [mask, *[None] * (len(result) - 1)]
            for part, one in zip(result, masks):
                self._attach(part, one)

    def _run(self, item: Layer | Operation, convert: Callable[[], Any]) -> Any:
        """The finished result of a converter; `UNAVAILABLE` where it is not supported."""
        self._calls += 1
        if self._calls > _MOST_CALLS:
            raise ModelError(f"{self.archive.label}: its layers call each other more than {_MOST_CALLS} times")
        done: dict[Expr, Expr] = {}

        def finished() -> Any:
            result = convert()
            if any(isinstance(leaf, Unavailable) for leaf in flatten([result])):
                return UNAVAILABLE
            if isinstance(item, Layer) and item.has_mask:
                item.mask = map_tensors(item.mask, lambda value: self._finisher.finish(value, item.span, done))
            made = map_tensors(result, lambda value: self._finisher.finish(value, item.span, done))
            for leaf in flatten([made]):
                type_of(leaf)
            return made

        try:
            return attempt(item, finished)
        except UnsupportedError as error:
            self.missing.add(item.class_name, item.label, str(error).removeprefix(f"{item.label}: "))
            return UNAVAILABLE


def _some(mask: Any) -> Any:
    """A mask, or a list with at least one; None for a list of none."""
    if isinstance(mask, list):
        return mask if any(_some(item) is not None for item in mask) else None
    return mask
