"""Functional and Sequential models, whole ones and those that are layers of others: their graphs, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.frontend.idioms import cast, concatenate, dtype_of, product, rank_of, reshape, shape_of
from tilewright.frontend.keras import graph
from tilewright.frontend.keras.layer import Layer, LayerImporter, Operation, flatten, map_tensors
from tilewright.frontend.keras.registry import converts
from tilewright.frontend.keras.weights import Weights
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


class Body:
    """The layers of one model, made once however often the model is applied; their names are below `scope`."""

    def __init__(
        self, item: Mapping[str, Any], weights: Weights, importer: LayerImporter, label: str, scope: str
    ) -> None:
        self.item, self.label = item, label
        self.importer = importer
        self.entries = graph.layers_of(item, label)
        # layers alone have groups, which are numbered by class
        kinds = [str(entry["class_name"]) for entry in self.entries.values()]
        positions = weights.children("layers", kinds, list(self.entries))
        self.layers: dict[str, Layer | Operation] = {}
        for (name, entry), below in zip(self.entries.items(), positions):
            if graph.is_operation(entry):
                self.layers[name] = Operation(str(entry["class_name"]), name, entry["config"], scope)
            else:
                class_name, config, custom = importer.described(entry, f"{label}: layer {name!r}")
                self.layers[name] = layer = Layer(class_name, name, config, below, importer, scope)
                layer.custom = custom
                layer.given = entry.get("build_config") or {}

    @property
    def is_sequential(self) -> bool:
        """True for a chain of layers without nodes."""
        return self.item["class_name"] == "Sequential" or "output_layers" not in self.item["config"]

    def inputs(self) -> list[str]:
        """The names of the input layers, in the order of the model's inputs."""
        if self.is_sequential:
            first = next(iter(self.entries), None)
            return [first] if first and self.entries[first]["class_name"] == "InputLayer" else []
        return [one.layer for one in flatten(graph.ends(self.item["config"], "input_layers", self.label))]

    def outputs(self) -> Any:
        """The references of the results: one, or lists and dictionaries of them; of a chain, its last layer."""
        if self.is_sequential:
            return graph.Reference(next(reversed(self.entries), ""), 0, 0)
        return graph.ends(self.item["config"], "output_layers", self.label)

    def run(self, inputs: Sequence[Any]) -> Any:
        """The results for these inputs, structured as the model returns them."""
        inputs = [self._typed(value, name) for value, name in zip(inputs, self.inputs() or [""])]
        return self._chain(inputs[0]) if self.is_sequential else self._graph(inputs)

    def _typed(self, value: Any, name: str) -> Any:
        """An input in the type that the input layer states, with its mask."""
        config = self.entries[name]["config"] if name in self.entries else {}
        dtype = config.get("dtype")
        if not isinstance(value, Expr) or not isinstance(dtype, str):
            return value
        return self.importer.with_mask(cast(value, dtype), self.importer.mask_of(value))

    def _chain(self, value: Any) -> Any:
        for layer in self.layers.values():
            if isinstance(layer, Layer) and layer.class_name == "InputLayer":
                continue
            value = self._call(layer, [value], {})
        return value

    def _graph(self, inputs: Sequence[Any]) -> Any:
        values: dict[tuple[str, int], Any] = {(name, 0): value for name, value in zip(self.inputs(), inputs)}
        for node in graph.nodes_of(self.entries, self.label):
            if (node.layer, node.index) in values:
                continue
            args = [graph.resolve(arg, values, self.label) for arg in node.args]
            kwargs = {key: graph.resolve(value, values, self.label) for key, value in node.kwargs.items()}
            values[node.layer, node.index] = self._call(self.layers[node.layer], args, kwargs)
        return graph.resolve(self.outputs(), values, self.label)

    def _call(self, layer: Layer | Operation, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if isinstance(layer, Operation):
            return self.importer.operation(layer, args, kwargs)
        return self.importer.apply(layer, args, kwargs)


@converts("Functional", "Sequential", "Model")
def convert_model_layer(layer: Layer, *inputs: Any, **more: Any) -> Any:
    """A model as a layer; inputs of several names come as a list or a dictionary."""
    if layer.body is None:
        item = {"class_name": layer.class_name, "config": layer.config}
        if not graph.is_model(item):
            layer.unsupported("a model that is a class of its own, whose Python code is not in the file,")
        layer.body = Body(item, layer.weights, layer.importer, layer.label, f"{layer.span}/")
    given = flatten(list(inputs))
    names = layer.body.inputs()
    if names and len(given) != len(names):
        layer.bad(f"{len(given)} inputs are given to a model of {len(names)}")
    result = layer.body.run(given)
    layer.set_mask(layer.mask_of(result))
    return result


# --------------------- Layers around others: applied to each step, in both directions, or with their weights normalized
@converts("TimeDistributed", passes_mask=True)
def convert_time_distributed(layer: Layer, inputs: Any, mask: Any = None) -> Any:
    """Steps are samples of their own."""
    batch, steps = shape_of(flatten([inputs])[0])[:2]

    def folded(value: Expr) -> Expr:
        return reshape(value, (product((batch, steps)), *shape_of(value)[2:]))

    def unfolded(value: Expr) -> Expr:
        return reshape(value, (batch, steps, *shape_of(value)[1:]))

    inner = layer.inside(layer["layer"], "layer")
    more = {}
    if isinstance(mask, Expr) and rank_of(mask) > 2:
        more["mask"] = folded(mask)
    return map_tensors(inner(map_tensors(inputs, folded), **more), unfolded)


@converts("Bidirectional")
def convert_bidirectional(layer: Layer, inputs: Expr, initial_state: Any = None, mask: Any = None) -> Any:
    """A recurrent layer and its twin that runs backwards, whose sequences are turned around."""
    described = layer["layer"]
    _, config, _ = layer.importer.described(described, layer.label)
    own = str(config.get("name", ""))
    plain = own.removeprefix("forward_")
    ahead = layer.inside(
        {**described, "config": {**config, "go_backwards": False}}, "forward_layer", f"forward_{plain}"
    )
    other = layer.get("backward_layer")
    turned = {**described, "config": {**config, "name": f"backward_{plain}", "go_backwards": True}}
    back = layer.inside(turned if other is None else other, "backward_layer", _name_of(other, f"backward_{plain}"))
    states = list(initial_state) if isinstance(initial_state, list | tuple) else []
    half = len(states) // 2
    results = []
    for one, given in ((ahead, states[:half]), (back, states[half:])):
        more: dict[str, Any] = {"mask": mask} if isinstance(mask, Expr) else {}
        if given:
            more["initial_state"] = given
        found = one(inputs, **more)
        results.append(list(found) if isinstance(found, list | tuple) else [found])
    if not all(isinstance(leaf, Expr) for leaf in flatten(results)):
        return results
    sequences = bool(config.get("return_sequences"))
    y, y_back = results[0][0], results[1][0]
    if sequences:
        y_back = op.reverse(y_back, axis=1)
        layer.set_mask(mask)
    made = _joined(layer, y, y_back)
    if not config.get("return_state"):
        return made
    kept = [*results[0][1:], *results[1][1:]]
    return [*made, *kept] if isinstance(made, list) else [made, *kept]


def _name_of(described: Any, default: str) -> str:
    config = described.get("config") if isinstance(described, dict) else None
    return str(config.get("name", default)) if isinstance(config, dict) else default


def _joined(layer: Layer, y: Expr, other: Expr) -> Any:
    mode = layer.get("merge_mode", "concat")
    if mode is None:
        return [y, other]
    if mode == "concat":
        return concatenate([y, other], rank_of(y) - 1)
    if mode == "mul":
        return y * other
    if mode not in ("sum", "ave"):
        layer.bad(f"merge_mode {mode!r}; there are concat, sum, mul, ave and null")
    total = y + other
    return total if mode == "sum" else total / 2


@converts("SpectralNormalization")
def convert_spectral_normalization(layer: Layer, inputs: Expr) -> Any:
    """In inference the kernel is as it was left by training."""
    made = layer.inside(layer["layer"], "layer")(inputs)
    return map_tensors(made, lambda value: cast(value, dtype_of(inputs)))
