"""Outputs of a graph that are views of an input or of another output, which PyTorch makes again.

    views = output_views(outputs, placeholders)     # {3: <node of the output>, …}
    replay(node, {placeholder: tensor, …})          # the view, of the memory that the tensor has

AOTAutograd takes the sizes, strides and offset of what a backend returns for such an output, and views the input by
them: an output with the right numbers in another order of memory becomes one with wrong numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import UnsupportedError


def output_views(outputs: Sequence[Any], placeholders: Sequence[Any]) -> dict[int, Any]:
    """The places and nodes of the `outputs` of a `torch.fx.Graph` that are views of an input or of an earlier node that
    is an output. Those that share memory with one but are views of a tensor within the graph are none: PyTorch asks for
    the tensor itself where it needs the memory to be one. Raises `UnsupportedError` for a view of an input that depends
    on something else.
    """
    order = {node: place for place, node in enumerate(placeholders[0].graph.nodes)} if placeholders else {}
    bases: dict[int, Any] = {}
    for node in (*placeholders, *sorted((n for n in outputs if n in order), key=order.__getitem__)):
        if (memory := _memory(node)) is not None:
            bases.setdefault(memory, node)
    found = {}
    for place, node in enumerate(outputs):
        base = bases.get(_memory(node) or 0)
        if base is None or base is node:
            continue
        other = _unknown(node, {base, *placeholders})
        if other is None:
            found[place] = node
        elif base in placeholders:
            raise UnsupportedError(f"the output {node} is a view that depends on {other}, which is no input")
    return found


def replay(node: Any, known: dict[Any, Any]) -> Any:
    """The value of `node`, of those of nodes that are `known`; what is found on the way is entered there."""
    if node not in known:
        # torch is optional
        from torch.fx import map_arg

        args, kwargs = map_arg((node.args, node.kwargs), lambda one: replay(one, known))
        known[node] = node.target(*args, **kwargs)
    return known[node]


def _memory(node: Any) -> int | None:
    """What tells the memory of a tensor from that of others; None for what has none."""
    value: Any = node.meta.get("val") if hasattr(node, "meta") else None
    return int(value.untyped_storage()._cdata) if hasattr(value, "untyped_storage") else None


def _unknown(node: Any, known: set[Any]) -> Any:
    """A node that `node` depends on and that is not one of the `known`, nor a view or number of these; None if none."""
    wanted, seen = [node], set(known)
    while wanted:
        one = wanted.pop()
        if one in seen:
            continue
        seen.add(one)
        if one.op != "call_function" or _memory(one) not in (None, _memory(node)):
            return one
        wanted += one.all_input_nodes
    return None
