"""Reading an ONNX model from a path, bytes or memory, with one clear error for each way a file can be bad."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from onnx import ModelProto

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.inputs import Declared, Dim
from tilewright.frontend.onnx.schema import type_from_proto, without_functions
from tilewright.frontend.onnx.tensors import dtype_of
from tilewright.frontend.onnx.wire import split_weights

MAX_OPSET = 28
"""The newest version of the default operator set whose definitions the converters were written against."""

DEFAULT_DOMAIN = ""


@dataclass(frozen=True)
class LoadedModel:
    """A parsed model, raw data of its large initializers, operator set versions by domain, position of external
    data.
    """

    proto: ModelProto
    weights: dict[str, memoryview]
    opsets: dict[str, int]
    directory: Path | None
    label: str


def load_model(model: str | os.PathLike[str] | bytes | ModelProto) -> LoadedModel:
    """Parse `model` and check that it is a whole ONNX model of a known version.

    Raises `ModelError` for a missing, foreign, truncated or empty file and `UnsupportedError` for a newer operator set.
    Functions that the model itself defines are inlined.
    """
    directory: Path | None = None
    weights: dict[str, memoryview] = {}
    if isinstance(model, ModelProto):
        proto, label = model, "the model"
    elif isinstance(model, bytes | bytearray | memoryview):
        label = "the model given as bytes"
        proto, weights = _parse(memoryview(model), label)
    else:
        path = Path(model)
        label, directory = str(path), path.parent
        proto, weights = _parse(_map(path), label)
    opsets = _check(proto, label)
    if proto.functions:
        proto = without_functions(proto, label)
    return LoadedModel(proto, weights, opsets, directory, label)


def normalize_domain(domain: str) -> str:
    """`ai.onnx` is another spelling of the default domain, the empty string."""
    return DEFAULT_DOMAIN if domain == "ai.onnx" else domain


def _map(path: Path) -> memoryview:
    """The contents of a file, memory-mapped: pages are read when they are used."""
    if path.is_dir():
        raise ModelError(f"{path} is a directory; pass the path of an ONNX model file")
    try:
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b"")
    except FileNotFoundError:
        raise ModelError(f"no such file: {path}") from None
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error


def _parse(data: memoryview, label: str) -> tuple[ModelProto, dict[str, memoryview]]:
    if not data:
        raise ModelError(f"{label} is empty; it is not an ONNX model")
    proto = ModelProto()
    try:
        rest, weights = split_weights(data)
        proto.ParseFromString(rest)
    except (DecodeError, ModelError):
        kind = "a truncated or damaged ONNX model" if _begins_like_a_model(data) else "not an ONNX model"
        raise ModelError(f"{label} ({len(data)} bytes) is {kind}: its protobuf encoding does not parse") from None
    return proto, weights


def _begins_like_a_model(data: memoryview) -> bool:
    """True when the first field is `ir_version` (field 1, varint), which every ONNX writer emits first."""
    return len(data) > 1 and data[0] == 0x08 and 1 <= data[1] <= 64


def _check(proto: Any, label: str) -> dict[str, int]:
    if not proto.ir_version and not proto.graph.node:
        raise ModelError(f"{label} is not an ONNX model: it holds no version and no graph")
    if not proto.HasField("graph") or not proto.graph.output:
        raise ModelError(f"{label} holds no graph with outputs; the file is truncated or damaged")
    opsets = {normalize_domain(entry.domain): int(entry.version) for entry in proto.opset_import}
    if not opsets:
        raise ModelError(f"{label} names no operator set (opset_import); the file is truncated or damaged")
    for domain, number in opsets.items():
        if not 0 <= number < 1 << 31:
            raise ModelError(
                f"{label} requires version {number} of the operator set {domain or 'ai.onnx'!r}, which is none"
            )
    version = opsets.setdefault(DEFAULT_DOMAIN, 1)
    if version > MAX_OPSET:
        raise UnsupportedError(
            f"{label} uses version {version} of the ONNX operator set; this version of Tilewright knows versions up to "
            f"{MAX_OPSET}. Export the model with an older opset, or convert it with onnx.version_converter"
        )
    return opsets


# What a graph must hold before anything is converted: names are text, given once, and given before they are read.
def check_graph(graph: Any, scope: str = "", around: frozenset[str] = frozenset(), later: Any = None) -> None:
    """Raise ModelError naming the node and the name that is no text, given twice, or read before it is given.

    `around` are the names that the graph sees from outside, `later` maps those that come only behind it to the node
    that computes them.
    """
    where = f"the graph of {scope[:-1]!r}" if scope else "the graph"
    for kind, values in (("input", graph.input), ("initializer", graph.initializer)):
        _once([value.name for value in values], kind, where)
    _text(graph.node, where)
    behind = {**(later or {}), **_producers(graph.node, scope)}
    known = around.union(
        (value.name for value in (*graph.input, *graph.initializer)),
        (tensor.values.name for tensor in graph.sparse_initializer),
    )
    seen = set(known)
    for name in seen & behind.keys():
        del behind[name]
    for index, node in enumerate(graph.node):
        span = scope + (node.name or f"{node.op_type}_{index}")
        for name in node.input:
            if name and name not in seen:
                _fail(f"node {span!r} ({node.op_type})", name, behind)
        for inner in _graphs(node):
            check_graph(inner, f"{span}/", frozenset(seen), behind)
        seen.update(name for name in node.output if name)
    if scope:
        for value in graph.output:
            if value.name and value.name not in seen:
                _fail(where, value.name, behind)


def _fail(reader: str, name: str, behind: dict[str, str]) -> None:
    if name not in behind:
        raise ModelError(f"{reader} reads {name!r}, which no input, initializer or earlier node provides")
    raise ModelError(
        f"{reader} reads {name!r}, which node {behind[name]!r} computes only behind it: the graph has a cycle, or its "
        "nodes are not in order"
    )


def _once(names: Sequence[str], kind: str, where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelError(f"{where} has two {kind}s called {name!r}; names are given once")
        seen.add(name)


def _text(nodes: Iterable[Any], where: str) -> None:
    for index, node in enumerate(nodes):
        attributes = [entry.name for entry in node.attribute]
        names = [node.name, node.op_type, node.domain, *node.input, *node.output, *attributes]
        if not all(isinstance(name, str) for name in names):
            raise ModelError(f"node {index} of {where} holds a name that is not text: {names}")


def _producers(nodes: Iterable[Any], scope: str) -> dict[str, str]:
    """The node that computes each name."""
    found: dict[str, str] = {}
    for index, node in enumerate(nodes):
        span = scope + (node.name or f"{node.op_type}_{index}")
        for name in node.output:
            if name and name in found:
                raise ModelError(
                    f"node {span!r} computes {name!r}, and so does node {found[name]!r}; names are given once"
                )
            found[name] = span
    return found


def _graphs(node: Any) -> list[Any]:
    return [graph for entry in node.attribute for graph in ([entry.g] if entry.HasField("g") else entry.graphs)]


# ------------------------------------------------------------- The inputs of an ONNX graph as its messages declare them
def declared_inputs(graph: Any) -> list[Declared]:
    """The inputs of an `onnx.GraphProto` in order, without those that are weights.

    Raises `ModelError` for a name that is no text, `UnsupportedError` for a type that no input may have.
    """
    weights = {tensor.name for tensor in graph.initializer}
    return [declared_input(value) for value in graph.input if value.name not in weights]


def declared_input(value: Any) -> Declared:
    """The declaration of an input in an `onnx.ValueInfoProto`. Raises as `declared_inputs` does."""
    if not isinstance(value.name, str):
        raise ModelError(f"an input has a name that is not text: {value.name!r}")
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        type_ = type_from_proto(value.type, f"input {value.name!r}")
        if type_ is None:
            raise UnsupportedError(f"input {value.name!r} is a {kind or 'value of no type'}, which is not supported")
        return Declared(value.name, None, None, type_)
    tensor = value.type.tensor_type
    dims = tuple(_dim(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    return Declared(value.name, dims, dtype_of(tensor.elem_type, f"input {value.name!r}"))


def _dim(dim: Any) -> Dim:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return str(dim.dim_param) or "?"
