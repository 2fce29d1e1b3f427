"""Functions that a model defines itself, put in place of their calls, where that ends and fits into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from onnx import AttributeProto, ModelProto
from onnx.inliner import inline_local_functions

from tilewright.errors import ModelError

#: Nodes that a model may have once its functions are in place: forty functions that call each other twice would be 2⁴⁰.
MOST_NODES = 1 << 20

_Key = tuple[str, str, str]


def without_functions(proto: ModelProto, label: str) -> ModelProto:
    """The model with its functions in place of their calls.

    Raises `ModelError` where one calls itself, they are malformed, or the calls come to more than `MOST_NODES` nodes.
    """
    count = _count_nodes(proto)
    if count > MOST_NODES:
        raise ModelError(
            f"the functions that {label} defines come to {count} nodes once they are in place of their calls, more "
            f"than the {MOST_NODES} that are taken; the file is damaged, or made to exhaust memory"
        )
    try:
        return inline_local_functions(proto)
    except Exception as error:  # of ONNX's C++ code, which says it by classes of its own
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"the functions that {label} defines cannot be put in place of their calls: {reason}"
        ) from None


def _count_nodes(proto: ModelProto) -> int:
    """How many nodes the model has with its functions in place; those that call themselves count once."""
    functions = {_key(function.domain, function.name, function.overload): function for function in proto.functions}
    sizes: dict[_Key, int] = {}
    begun: set[_Key] = set()
    pending = list(functions)
    while pending:  # callees first, with a stack of its own: calls nest as deep as the file says
        key = pending[-1]
        calls = [called for called in map(_called, _nodes(functions[key].node)) if called in functions]
        waiting = [called for called in calls if called not in sizes and called not in begun]
        begun.add(key)
        if waiting:
            pending += waiting
        else:
            sizes[pending.pop()] = _size(functions[key].node, sizes)
    return _size(proto.graph.node, sizes)


def _size(nodes: Iterable[Any], sizes: dict[_Key, int]) -> int:
    return sum(sizes.get(_called(node), 1) for node in _nodes(nodes))


def _nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """The nodes and those of all graphs within them."""
    pending = [nodes]
    while pending:
        for node in pending.pop():
            yield node
            pending += [a.g.node for a in node.attribute if a.type == AttributeProto.GRAPH]


def _called(node: Any) -> _Key:
    return _key(node.domain, node.op_type, node.overload)


def _key(domain: str, name: str, overload: str) -> _Key:
    return ("" if domain == "ai.onnx" else domain, name, overload)
