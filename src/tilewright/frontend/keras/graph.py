"""Functional and Sequential models: what their configurations say of layers, of nodes, and of what goes in and out.

A functional model lists its layers; a layer lists its nodes, one for each time it was called, with the arguments of
that call. A tensor in them is named by layer, node and position among the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.keras.layer import flatten
from tilewright.frontend.keras.registry import find_operation
from tilewright.relay.ir.expr import Constant
from tilewright.support.dtype import DType

MODELS = ("Functional", "Model", "Sequential")
#: What JSON of a graph says of tensors that are none of its nodes' results.
_MOST_CONSTANT = 1 << 26


@dataclass(frozen=True)
class Reference:
    """A result of a node of a layer."""

    layer: str
    node: int
    position: int


@dataclass(frozen=True)
class GraphNode:
    """One call of a layer: `args` and `kwargs` hold `Reference`s where tensors go."""

    layer: str
    index: int
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    needs: frozenset[tuple[str, int]]


def is_model(item: Mapping[str, Any]) -> bool:
    """True for the description of a functional or sequential model."""
    config = item.get("config")
    return isinstance(config, dict) and isinstance(config.get("layers"), list)


def class_of(item: Mapping[str, Any]) -> str:
    """The class that a converter is registered for; of another package, the name that Keras knows it by."""
    name = str(item["class_name"])
    registered = item.get("registered_name")
    return str(registered) if is_custom(item) and registered and registered != name else name


def is_custom(item: Mapping[str, Any]) -> bool:
    """True for what is of another package than Keras."""
    module = item.get("module")
    if module is None and item.get("registered_name"):
        return ">" in str(item["registered_name"]) and not str(item["registered_name"]).startswith("keras")
    return isinstance(module, str) and module.split(".")[0] not in ("keras", "tf_keras", "tensorflow", "builtins")


def is_operation(item: Mapping[str, Any]) -> bool:
    """True for an operation of `keras.ops` rather than a layer."""
    module = item.get("module")
    if module is None:  # a file of Keras 2's format: only layers say whether they are trained
        return "trainable" not in item["config"] and find_operation(str(item["class_name"])) is not None
    return isinstance(module, str) and module.startswith(("keras.src.ops", "keras.ops", "keras._ops"))


def layers_of(item: Mapping[str, Any], label: str) -> dict[str, dict[str, Any]]:
    """The layers of a model by name. Raises `ModelError` where they are not what they should be."""
    result: dict[str, dict[str, Any]] = {}
    for entry in item["config"]["layers"]:
        if not isinstance(entry, dict) or not isinstance(entry.get("class_name"), str):
            raise ModelError(f"{label}: its layers hold something that is no layer")
        config = entry.get("config")
        if not isinstance(config, dict):
            raise ModelError(f"{label}: the layer {entry['class_name']} has no configuration")
        name = entry.get("name") or config.get("name") or f"layer_{len(result)}"
        if name in result:
            raise ModelError(f"{label} has two layers called {name!r}")
        result[str(name)] = entry
    return result


def nodes_of(layers: Mapping[str, dict[str, Any]], label: str) -> list[GraphNode]:
    """The calls of a functional model's layers, each behind those that it needs.

    Raises `ModelError` for nodes that need each other, or something that is not there.
    """
    waiting: list[GraphNode] = []
    for name, entry in layers.items():
        listed = entry.get("inbound_nodes") or []
        if not isinstance(listed, list):
            raise ModelError(f"{label}: the nodes of the layer {name!r} are not a list")
        for index, node in enumerate(listed):
            waiting.append(_node(name, index, node, label))
    known = {(node.layer, node.index): node for node in waiting}
    roots = {(name, 0) for name, entry in layers.items() if entry["class_name"] == "InputLayer"}
    for node in waiting:
        for need in node.needs - known.keys() - roots:
            raise ModelError(
                f"{label}: the layer {node.layer!r} reads node {need[1]} of {need[0]!r}, which is not there"
            )
    try:
        order = TopologicalSorter({key: sorted(node.needs & known.keys()) for key, node in known.items()})
        return [known[key] for key in order.static_order()]
    except CycleError as error:
        raise ModelError(f"{label}: {len(error.args[1]) - 1} calls of its layers need each other") from None


def _node(name: str, index: int, node: Any, label: str) -> GraphNode:
    """A node as Keras 3 writes it, or as Keras 2 did: [[layer, node, position, keyword arguments], …]."""
    needs: set[tuple[str, int]] = set()
    if isinstance(node, dict):
        args, kwargs = node.get("args", []), node.get("kwargs", {})
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise ModelError(f"{label}: a call of the layer {name!r} has no arguments")
        given = tuple(decode(arg, label, needs) for arg in args)
        named = {str(key): decode(value, label, needs) for key, value in kwargs.items()}
        return GraphNode(name, index, given, named, frozenset(needs))
    if not isinstance(node, list) or not node:
        raise ModelError(f"{label}: a call of the layer {name!r} has no arguments")
    if isinstance(node[0], str):  # one tensor, written without its list
        node = [node]
    tensors, named = [], {}
    for entry in node:
        reference, more = _old_reference(entry, label, needs)
        tensors.append(reference)
        named.update(more)
    return GraphNode(name, index, (tensors[0] if len(tensors) == 1 else tensors,), named, frozenset(needs))


def _old_reference(entry: Any, label: str, needs: set[tuple[str, int]]) -> tuple[Any, dict[str, Any]]:
    if not isinstance(entry, list) or len(entry) < 3 or not isinstance(entry[0], str):
        raise ModelError(f"{label}: {str(entry)[:80]} names no tensor")
    more = entry[3] if len(entry) > 3 and isinstance(entry[3], dict) else {}
    named = {}
    for key, value in more.items():
        is_tensor = isinstance(value, list) and len(value) == 3 and isinstance(value[0], str)
        is_tensor = is_tensor and all(isinstance(number, int) for number in value[1:])
        named[str(key)] = reference(value, label, needs) if is_tensor else decode(value, label, needs)
    if entry[0] == "_CONSTANT_VALUE":
        return decode(entry[2], label, needs), named
    return reference(entry[:3], label, needs), named


def reference(entry: Any, label: str, needs: set[tuple[str, int]] | None = None) -> Reference:
    """The tensor that [layer, node, position] names."""
    fits = isinstance(entry, list) and len(entry) == 3 and isinstance(entry[0], str)
    if not fits or not all(isinstance(number, int) and number >= 0 for number in entry[1:]):
        raise ModelError(f"{label}: {str(entry)[:80]} names no tensor")
    if needs is not None:
        needs.add((entry[0], entry[1]))
    return Reference(*entry)


def decode(value: Any, label: str, needs: set[tuple[str, int]]) -> Any:
    """An argument: tensors as `Reference`s, arrays as constants, Python's own objects as themselves."""
    if isinstance(value, list):
        return [decode(item, label, needs) for item in value]
    if not isinstance(value, dict):
        return value
    kind, config = value.get("class_name"), value.get("config")
    if not isinstance(kind, str) or not isinstance(config, dict):
        return {key: decode(item, label, needs) for key, item in value.items()}
    if kind == "__keras_tensor__":
        return reference(config.get("keras_history"), label, needs)
    if kind in ("__numpy__", "__tensor__"):
        return _array(config, label)
    if kind == "__slice__":
        return slice(*(decode(config.get(key), label, needs) for key in ("start", "stop", "step")))
    if kind == "__ellipsis__":
        return Ellipsis
    if kind == "__tuple__":
        return tuple(decode(item, label, needs) for item in config.get("value", ()))
    return str(config.get("value", "")).encode() if kind == "__bytes__" else value


def _array(config: Mapping[str, Any], label: str) -> Constant:
    dtype = str(config.get("dtype", "float32"))
    try:
        array = np.asarray(config.get("value"))
        if array.dtype.kind not in "biuf" or array.nbytes > _MOST_CONSTANT:
            raise ValueError(f"{array.dtype} of {array.nbytes} bytes")
        return Constant(array.astype(DType(dtype).numpy))
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{label}: a constant of {dtype} in its graph is no array of numbers: {error}") from None


def resolve(value: Any, values: Mapping[tuple[str, int], Any], label: str) -> Any:
    """`value` with what the `Reference`s in it stand for."""
    if isinstance(value, Reference):
        results = values.get((value.layer, value.node))
        leaves = flatten([results])
        if results is None:
            raise ModelError(f"{label}: node {value.node} of {value.layer!r} is read before it is computed")
        if len(leaves) == 1:
            return leaves[0]
        if value.position >= len(leaves):
            raise ModelError(f"{label}: {value.layer!r} has {len(leaves)} results, and number {value.position} is read")
        return leaves[value.position]
    if isinstance(value, list | tuple):
        return type(value)(resolve(item, values, label) for item in value)
    if isinstance(value, dict):
        return {key: resolve(item, values, label) for key, item in value.items()}
    return value


def ends(config: Mapping[str, Any], key: str, label: str) -> Any:
    """`input_layers` or `output_layers`: one `Reference`, or lists and dictionaries of them."""
    found = config.get(key)
    if found is None:
        raise ModelError(f"{label} lacks {key}")
    return _ends(found, label)


def _ends(value: Any, label: str) -> Any:
    if isinstance(value, list) and len(value) == 3 and isinstance(value[0], str) and isinstance(value[1], int):
        return reference(value, label)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_ends(item, label) for item in value]
    if isinstance(value, dict):
        if value.get("class_name") == "__keras_tensor__":
            return decode(value, label, set())
        return {str(key): _ends(item, label) for key, item in value.items()}
    raise ModelError(f"{label}: {str(value)[:80]} names no tensor")
