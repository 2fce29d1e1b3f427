"""A model cut off at inner values: the same ONNX graph with other outputs, for comparing what lies between."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from tilewright.errors import EnvironmentError_, InputError, ModelError


def cut_at(path: str, names: Sequence[str], folder: str) -> str:
    """Write the model at `path` with the values `names` as its outputs into `folder`; the path of the new file.

    Nodes that the values do not need are left out. Raises InputError with the nearest names for an unknown value.
    """
    try:
        import onnx
    except ImportError:
        raise EnvironmentError_("onnx is not installed; `pip install tilewright[onnx]` installs it") from None
    try:
        model = onnx.load(path)
    except Exception as error:
        raise ModelError(f"{path} cannot be read as an ONNX model ({error})") from None
    producers = {output: index for index, node in enumerate(model.graph.node) for output in node.output if output}
    for name in names:
        if name not in producers:
            near = difflib.get_close_matches(name, producers, n=3)
            hint = f"; near it: {', '.join(near)}" if near else ""
            raise InputError(f"no node of {path} has an output {name!r}{hint}")
    known = {info.name: info for info in (*model.graph.value_info, *model.graph.output)}
    untyped = onnx.helper.make_tensor_value_info
    outputs = [known.get(name) or untyped(name, onnx.TensorProto.FLOAT, None) for name in names]
    needed = _ancestors(model, [producers[name] for name in names], producers)
    nodes = [node for index, node in enumerate(model.graph.node) if index in needed]
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.extend(nodes)
    model.graph.output.extend(outputs)
    target = Path(folder) / "cut.onnx"
    onnx.save(model, target, save_as_external_data=model.ByteSize() >= 2**31)
    return str(target)


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
