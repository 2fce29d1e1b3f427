"""SavedModels and frozen graphs from files: nodes, functions, variables, inputs and outputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.errors import InputError, ModelError
from tilewright.frontend.messages import Record
from tilewright.frontend.source import Source
from tilewright.frontend.tensorflow.schema import SCHEMA
from tilewright.frontend.tensorflow.tensors import array_of, shape_of_proto
from tilewright.frontend.tensorflow.variables import Variables
from tilewright.frontend.wire import first_fields, looks_like, read_message

_NOT_READ = ("Const", "Placeholder", "NoOp", "Assert", "SaveV2", "RestoreV2", "VarHandleOp", "VariableV2", "Assign")


@dataclass(frozen=True)
class Endpoint:
    """An input or output: what it is called, and the tensor that it is, `node:position`."""

    name: str
    tensor: str
    dtype: int
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class Program:
    """A graph with its functions; `keys` says under which key a variable of this name (of its node) is stored."""

    label: str
    nodes: Mapping[str, Record]
    functions: Mapping[str, Record]
    inputs: Sequence[Endpoint]
    outputs: Sequence[Endpoint]
    variables: Variables | None
    keys: Mapping[str, str]


def is_saved_model(source: Source) -> bool:
    """True for a folder of a SavedModel."""
    return source.is_folder and "saved_model.pb" in source.members


def is_graph(source: Source) -> bool:
    """True for bytes that begin like a GraphDef: a node with a name and an operator."""
    head = source.contents[: 1 << 12]
    if bytes(head[:1]) != b"\n" or looks_like(head, SCHEMA, "GraphDef") is None:
        return False
    _, begin, end = first_fields(head, 1)[0]
    seen = looks_like(head[begin:end], SCHEMA, "NodeDef")
    return seen is not None and {"name", "op"} <= seen


def load_program(
    model: str | os.PathLike[str] | bytes, outputs: Sequence[str] | None, signature: str | None
) -> Program:
    """The program of a folder, a file or bytes. Raises `ModelError` where it is damaged or none."""
    source = Source.of(model)
    if is_saved_model(source):
        assert source.path is not None
        return _saved_model(source.path, outputs, signature)
    if not is_graph(source):
        raise ModelError(f"{source.label} is neither the folder of a SavedModel nor a GraphDef")
    graph = read_message(source.contents, SCHEMA, "GraphDef", source.label, "a TensorFlow graph")
    nodes = _nodes(graph.node, source.label)
    wanted = list(outputs) if outputs else _unread(nodes)
    # loops leave inputs behind that nothing reads, when variables are frozen: handles, and tensors of any shape
    used = _read(nodes) | {name.partition(":")[0] for name in wanted}
    given = [node for name, node in nodes.items() if node.op == "Placeholder" and name in used]
    inputs = [_placeholder(node, source.label) for node in given]
    found = [Endpoint(name, name if ":" in name else f"{name}:0", 0, None) for name in wanted]
    for one in found:
        if one.tensor.rpartition(":")[0] not in nodes:
            raise InputError(f"{source.label} has no node {one.name!r} to be an output")
    return Program(source.label, nodes, _functions(graph, source.label), inputs, found, None, {})


def _saved_model(folder: Path, outputs: Sequence[str] | None, signature: str | None) -> Program:
    source = Source.of(folder / "saved_model.pb")
    label = str(folder)
    whole = read_message(source.contents, SCHEMA, "SavedModel", label, "a SavedModel")
    graphs = [one for one in whole.meta_graphs if "serve" in one.meta_info_def.tags] or list(whole.meta_graphs)
    if not graphs:
        raise ModelError(f"{label} is a SavedModel without a graph")
    chosen = graphs[0]
    nodes = _nodes(chosen.graph_def.node, label)
    functions = _functions(chosen.graph_def, label)
    spec = _signature(chosen, signature, label)
    inputs = [_endpoint(name, spec.inputs[name]) for name in sorted(spec.inputs)]
    named = {name: _endpoint(name, info) for name, info in sorted(spec.outputs.items())}
    missing = [name for name in outputs or () if name not in named]
    if missing:
        raise InputError(f"{label} has no output {missing[0]!r}; its outputs are {', '.join(named)}")
    found = [named[name] for name in outputs or named]
    variables = Variables(folder / "variables")
    return Program(label, nodes, functions, inputs, found, variables, _stored_keys(chosen, nodes, functions, label))


def _signature(graph: Record, name: str | None, label: str) -> Record:
    known = {key: value for key, value in graph.signature_def.items() if key != "__saved_model_init_op"}
    if not known:
        raise ModelError(f"{label} has no signature, which would say what goes in and out")
    if name is None:
        name = "serving_default" if "serving_default" in known else next(iter(sorted(known)))
    if name not in known:
        raise InputError(f"{label} has no signature {name!r}; there are {', '.join(sorted(known))}")
    return known[name]


def _endpoint(name: str, info: Record) -> Endpoint:
    return Endpoint(name, info.name, int(info.dtype), shape_of_proto(info.tensor_shape))


def _placeholder(node: Record, label: str) -> Endpoint:
    attr = node.attr.get("shape")
    shape = None if attr is None else shape_of_proto(attr.shape)
    return Endpoint(node.name, f"{node.name}:0", int(node.attr["dtype"].type) if "dtype" in node.attr else 0, shape)


def _nodes(listed: Sequence[Record], label: str) -> dict[str, Record]:
    found: dict[str, Record] = {}
    for node in listed:
        if not node.name or node.name in found:
            raise ModelError(f"{label} has {'a node without a name' if not node.name else f'two nodes {node.name!r}'}")
        found[node.name] = node
    return found


def _functions(graph: Record, label: str) -> dict[str, Record]:
    return {function.signature.name: function for function in graph.library.function}


def _read(nodes: Mapping[str, Record]) -> set[str]:
    """The nodes that others read."""
    return {name.lstrip("^").partition(":")[0] for node in nodes.values() for name in node.input}


def _unread(nodes: Mapping[str, Record]) -> list[str]:
    """The nodes that no other reads."""
    read = _read(nodes)
    return [name for name, node in nodes.items() if name not in read and node.op not in _NOT_READ]


# ----------------------------------------------------------------------------------------------------------- variables
def _stored_keys(
    graph: Record, nodes: Mapping[str, Record], functions: Mapping[str, Record], label: str
) -> dict[str, str]:
    """Under which key each variable is stored, by its node: what the operator that restores the model assigns to it."""
    keys: dict[str, str] = {}
    name = graph.saver_def.restore_op_name.partition(":")[0]
    restore = nodes.get(name)
    if restore is not None and restore.op in ("StatefulPartitionedCall", "PartitionedCall"):
        function = functions.get(restore.attr["f"].func.name) if "f" in restore.attr else None
        if function is not None:
            inner = _assigned(_nodes(function.node_def, label), label)
            given = [one for one in restore.input if not one.startswith("^")]
            for arg, source in zip(function.signature.input_arg, given):
                if arg.name in inner:
                    keys[source.partition(":")[0]] = inner[arg.name]
    for variable, key in _assigned(nodes, label).items():
        keys.setdefault(variable, key)
    # variables that Keras holds are restored through others, which begin as they are
    for node in nodes.values():
        giver = nodes.get(node.input[1].partition(":")[0]) if _assigns(node) else None
        if giver is not None and giver.op == "ReadVariableOp" and giver.input:
            key = keys.get(node.input[0].partition(":")[0], "")
            keys.setdefault(giver.input[0].partition(":")[0], key)
    return keys


def _assigns(node: Record) -> bool:
    return node.op in ("AssignVariableOp", "Assign") and len(node.input) >= 2


def _assigned(nodes: Mapping[str, Record], label: str) -> dict[str, str]:
    """Keys by what is assigned: of each Assign whose value comes from RestoreV2."""
    found = {}
    for node in nodes.values():
        if not _assigns(node):
            continue
        source = node.input[1]
        for _ in range(16):  # Identity operators on the way
            giver = nodes.get(source.partition(":")[0])
            if giver is None or giver.op not in ("Identity", "Cast"):
                break
            source = giver.input[0]
        if giver is None or giver.op != "RestoreV2" or len(giver.input) < 2:
            continue
        listed = nodes.get(giver.input[1].partition(":")[0])
        if listed is None or listed.op != "Const" or "value" not in listed.attr:
            continue
        names: Any = array_of(listed.attr["value"].tensor, label)
        tail = source.rpartition(":")[2]
        position = int(tail) if tail.isdigit() else 0
        if position < len(names) and isinstance(names[position], bytes):
            found[node.input[0].partition(":")[0]] = names[position].decode("utf-8", "replace")
    return found
