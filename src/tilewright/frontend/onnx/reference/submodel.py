"""A model cut off at inner values: the same ONNX graph with other outputs, for comparing what lies between."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewright.errors import EnvironmentError_, InputError, ModelError
from tilewright.support.suggestion import suggestion


def cut_at(path: str, names: Sequence[str], folder: str) -> str:
    """Write the model at `path` with the values `names` as its outputs into `folder`; the path of the new file.

    Nodes that the values do not need are left out. Raises InputError with the nearest names for an unknown value.
    """
    try:
        import onnx
    except ImportError:
        raise EnvironmentError_("onnx is not installed; `pip install tilewright[onnx]` installs it") from None
    model = read_onnx(path, load_external_data=False)
    producers = {output: index for index, node in enumerate(model.graph.node) for output in node.output if output}
    for name in names:
        if name not in producers:
            raise InputError(f"no node of {path} has an output {name!r}{suggestion(name, producers)}")
    known = {info.name: info for info in (*model.graph.value_info, *model.graph.output)}
    untyped = onnx.helper.make_tensor_value_info
    outputs = [known.get(name) or untyped(name, onnx.TensorProto.FLOAT, None) for name in names]
    needed = _ancestors(model, [producers[name] for name in names], producers)
    nodes = [node for index, node in enumerate(model.graph.node) if index in needed]
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.extend(nodes)
    model.graph.output.extend(outputs)
    target = Path(folder) / "cut.onnx"
    target.write_bytes(model.SerializeToString())
    for location in {position for tensor in tensors_of(model.graph) if (position := external_location(tensor))}:
        _bring(location, Path(path).parent, target.parent)
    return str(target)


def read_onnx(path: str, load_external_data: bool = True) -> Any:
    """The `onnx.ModelProto` at `path`. Raises `ModelError` where it, or external data that it names, cannot be read."""
    # onnx is optional, and slow to import: only what cuts models needs it
    import onnx

    try:
        return onnx.load(path, load_external_data=load_external_data)
    except Exception as error:  # protobuf, onnx's checker and the file system each have errors of their own
        raise ModelError(f"{path} cannot be read as an ONNX model ({error})") from None


def tensors_of(graph: Any) -> Iterator[Any]:
    """Every stored tensor of an ONNX graph: initializers and attributes, those of inner graphs too."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from [*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors]
            for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from tensors_of(inner)


def external_location(tensor: Any) -> str:
    """The name of the file that holds a tensor's data; empty where the model holds it."""
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def _bring(location: str, home: Path, folder: Path) -> None:
    """Make a file of external data available in `folder` too, without a copy where one file system holds both."""
    source, target = home / location, folder / location
    if not target.resolve().is_relative_to(folder.resolve()) or not source.is_file():
        return  # whoever reads the model reports it
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def _ancestors(model, roots, producers) -> set[int]:  # type: ignore[no-untyped-def]
    """Indices of the nodes that the nodes `roots` need, subgraphs included."""
    needed: set[int] = set()
    stack = list(roots)
    while stack:
        index = stack.pop()
        if index in needed:
            continue
        needed.add(index)
        stack += [producers[name] for name in _reads(model.graph.node[index]) if name in producers]
    return needed


def _reads(node) -> set[str]:  # type: ignore[no-untyped-def]
    """Names that a node reads, those its subgraphs read included."""
    names = set(node.input)
    for attribute in node.attribute:
        graphs = [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
        for graph in graphs:
            names = names.union(*(_reads(inner) for inner in graph.node), (output.name for output in graph.output))
    return names
