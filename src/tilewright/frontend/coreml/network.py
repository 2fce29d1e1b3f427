"""Core ML models that are neural networks, the form before ML programs: layers over arrays of floats.

A network says how it takes arrays: as they are, or as arrays of five axes (sequence, batch, channels, height, width),
to which those of one or three axes are brought; its results are then brought back. Images are arrays [channels,
height, width] here, of numbers 0 to 255 in the order of colours that the model names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.coreml.load import MlModel
from tilewright.frontend.coreml.network_node import LayerNode, layers, written
from tilewright.frontend.graph_walk import GraphWalk
from tilewright.frontend.idioms import cast, constant, reshape, shape_of
from tilewright.frontend.inputs import Declared, InputSpec, resolve_inputs
from tilewright.frontend.messages import Record
from tilewright.frontend.outputs import module_of
from tilewright.relay.ir.expr import Expr, Function, GlobalVar, var
from tilewright.relay.ir.module import IRModule
from tilewright.support.dtype import DType

#: The fields of a model that hold a network.
KINDS = ("neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")
_DTYPES = {"FLOAT32": "float32", "DOUBLE": "float64", "INT32": "int32", "FLOAT16": "float16", "INVALID": "float32"}
_CHANNELS = {"GRAYSCALE": 1, "GRAYSCALE_FLOAT16": 1, "RGB": 3, "BGR": 3}
_LARGEST = 1 << 40
_MOST_DEPTH = 50


def network_of(model: MlModel) -> Record | None:
    """The network that a model is, or None."""
    kind = next((kind for kind in KINDS if model.spec.has(kind)), None)
    return None if kind is None else getattr(model.spec, kind)


def convert_network(
    model: MlModel, network: Record, input_shapes: Mapping[str, Sequence[Any]] | None
) -> tuple[IRModule, list[InputSpec]]:
    """See `tilewright.frontend.coreml.from_coreml`."""
    entries = model.spec.description.input
    specs = resolve_inputs([_declared(entry, model) for entry in entries], input_shapes)
    params = [var(spec.name, spec.type) for spec in specs]
    walk = GraphWalk(model.label, layers)
    five = network.arrayInputShapeMapping == "RANK5_ARRAY_MAPPING"
    for entry, param in zip(entries, params):
        walk.values[entry.name] = _taken(entry, param, network, five, model)
    functions: dict[GlobalVar, Function] = {}
    for layer in network.layers:
        _layer(layer, walk, functions, 0)
    names = _results(model, network)
    results = [_given(value, name, model, five) for name, value in zip(names, walk.results(names))]
    return module_of(params, results, names, functions), specs


def _declared(entry: Record, model: MlModel) -> Declared:
    kind = entry.type
    if kind.has("imageType"):
        image = kind.imageType
        channels = _CHANNELS.get(image.colorSpace)
        if channels is None:
            raise UnsupportedError(f"{model.label}: the image {entry.name!r} of colours {image.colorSpace}")
        shape: tuple[int, ...] = (channels, int(image.height), int(image.width))
        dtype = "float32"
    else:
        shape = tuple(int(extent) for extent in kind.multiArrayType.shape)
        dtype = _DTYPES.get(kind.multiArrayType.dataType, "")
    if not dtype or not (kind.has("imageType") or kind.has("multiArrayType")):
        raise UnsupportedError(f"{model.label}: the input {entry.name!r} is neither an image nor an array of numbers")
    if any(not 0 < extent < _LARGEST for extent in shape):
        raise ModelError(f"{model.label}: the input {entry.name!r} has the shape {list(shape)}")
    return Declared(entry.name, shape, DType(dtype))


def _taken(entry: Record, param: Expr, network: Record, five: bool, model: MlModel) -> Expr:
    """An input as the layers take it."""
    value = cast(param, "float32")
    shape = shape_of(value)
    if entry.type.has("imageType"):
        for step in network.preprocessing:
            if step.featureName in ("", entry.name):
                value = _preprocessed(value, step, entry.type.imageType.colorSpace, model)
        return reshape(
            value, (1, *shape) if network.imageInputShapeMapping == "RANK4_IMAGE_MAPPING" else (1, 1, *shape)
        )
    if not five or len(shape) == 5:
        return value
    if len(shape) not in (1, 3):
        raise ModelError(
            f"{model.label}: the input {entry.name!r} has {len(shape)} axes; the network takes one, three or five"
        )
    return reshape(value, (1, 1, *shape) if len(shape) == 3 else (1, 1, *shape, 1, 1))


def _preprocessed(value: Expr, step: Record, colours: str, model: MlModel) -> Expr:
    """An image scaled and moved by colour, or less a mean image."""
    if step.has("meanImage"):
        mean = np.asarray(step.meanImage.meanImage, np.float32)
        shape = shape_of(value)
        if mean.size != int(np.prod(shape)):
            raise ModelError(f"{model.label}: a mean image of {mean.size} numbers for images of {list(shape)}")
        return value - mean.reshape(shape)
    scaler = step.scaler
    red, green, blue = scaler.redBias, scaler.greenBias, scaler.blueBias
    bias = {"RGB": [red, green, blue], "BGR": [blue, green, red]}.get(colours, [scaler.grayBias])
    scaled = value * scaler.channelScale
    return scaled + constant(np.reshape(bias, (-1, 1, 1)))


def _layer(layer: Record, walk: GraphWalk, functions: dict[GlobalVar, Function], depth: int) -> None:
    if depth > _MOST_DEPTH:
        raise ModelError(f"{walk.label}: networks within networks more than {_MOST_DEPTH} deep")
    kind = next((name for name in layer.given() if name not in ("name", "input", "output")), "unknown")
    where = f"{kind} {layer.name!r}"
    inputs = [walk.value(name, where) for name in layer.input]
    names, name = list(layer.output), layer.name or next(iter(layer.output), kind)
    params = getattr(layer, kind) if kind != "unknown" else layer
    node = LayerNode(kind, name, inputs, params, len(names))
    if kind in ("branch", "loop"):
        node.nested = _Nested(params, walk, functions, depth)
        names = node.nested.names
    walk.step(node, names)


class _Nested:
    """`network_node.Nested` of a layer: the networks that are fields of its parameters."""

    def __init__(self, params: Record, walk: GraphWalk, functions: dict[GlobalVar, Function], depth: int) -> None:
        self._params, self._walk, self._depth = params, walk, depth
        self._before = dict(walk.values)
        self.functions, self.names = functions, written(params)

    def run(self, field: str, values: Mapping[str, Expr]) -> dict[str, Expr]:
        """Convert the layers of a network; what the walk has is as before afterwards."""
        around, here = dict(self._walk.values), dict(self._before) | dict(values)
        self._walk.values.clear()
        self._walk.values.update(here)
        for layer in getattr(self._params, field).layers:
            _layer(layer, self._walk, self.functions, self._depth + 1)
        found = {name: self._walk.values[name] for name in self.names if name in self._walk.values}
        self._walk.values.clear()
        self._walk.values.update(around)
        unavailable = [name for name, value in found.items() if not isinstance(value, Expr)]
        if unavailable:
            raise UnsupportedError(f"the layer within that writes {unavailable[0]!r} is not supported")
        return found

    def before(self) -> dict[str, Expr]:
        """The values that there are before the layer, by name."""
        return {str(name): value for name, value in self._before.items() if isinstance(value, Expr)}


def _results(model: MlModel, network: Record) -> list[str]:
    """The results of the network: of a classifier its probabilities, as labels and dictionaries are no tensors."""
    if model.spec.has("neuralNetworkClassifier"):
        last = network.layers[-1].output if network.layers else []
        names = [network.labelProbabilityLayerName] if network.labelProbabilityLayerName else list(last)[:1]
    else:
        names = [entry.name for entry in model.spec.description.output]
    if not names:
        raise ModelError(f"{model.label}: its network has no outputs")
    return names


def _given(value: Expr, name: str, model: MlModel, five: bool) -> Expr:
    """An output in the shape that the model declares, or without the axes of one that five axes brought."""
    entry = next((entry for entry in model.spec.description.output if entry.name == name), None)
    shape = shape_of(value)
    if entry is not None and entry.type.has("multiArrayType"):
        declared = tuple(int(extent) for extent in entry.type.multiArrayType.shape)
        if declared and all(isinstance(extent, int) for extent in shape) and np.prod(declared) == np.prod(shape):
            return reshape(value, declared)
    if not five or len(shape) != 5:
        return value
    kept = shape[2:] if shape[:2] == (1, 1) else shape
    return reshape(value, kept[:-2] if kept[-2:] == (1, 1) else kept)
