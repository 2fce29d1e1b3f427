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
    """The places and nodes of the `outputs` of a `torch.fx.Graph` that share memory with an input or an earlier node
    that is an output. Raises `UnsupportedError` for one that depends on a tensor which is neither.
    """
    order = {node: place for place, node in enumerate(placeholders[0].graph.nodes)} if placeholders else {}
    bases: dict[int, Any] = {}
    for node in (*placeholders, *sorted((n for n in outputs if n in order), key=order.__getitem__)):
        if (memory := _memory(node)) is not None:
            bases.setdefault(memory, node)
    found = {}
    for place, node in enumerate(outputs):
        base = bases.get(_memory(node) or 0)
        if base is not None and base is not node:
            _check(node, {base, *placeholders})
            found[place] = node
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


def _check(node: Any, known: set[Any]) -> None:
    """Raise `UnsupportedError` unless `node` follows from those that are `known` by views and numbers alone."""
    wanted, seen = [node], set(known)
    while wanted:
        one = wanted.pop()
        if one in seen:
            continue
        seen.add(one)
        if one.op != "call_function" or _memory(one) not in (None, _memory(node)):
            raise UnsupportedError(f"the output {node} is a view that depends on {one}, which is no input")
        wanted += one.all_input_nodes
