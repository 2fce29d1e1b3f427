"""The layers in integers by which a model costs least, where a tensor between integers and floats costs a conversion.

Layers are nodes of a graph, tensors between two of them edges. What is in integers is one side of a minimum cut, by
shortest augmenting paths (Edmonds and Karp, 1972), so the choice is exact for the costs that come in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

from tilewright.quantize.layers import Layer, is_between, operands_of
from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import children

#: A tensor from one layer to another, by name, and its number of elements.
Edge = tuple[str, str, int]
_INTEGERS, _FLOAT = "integers ", "float "  # the two ends of the cut; names of layers end in no blank
_NOTHING = 1e-15  # what is left of a capacity by rounding


def edges(layers: Sequence[Layer]) -> list[Edge]:
    """The tensors that lead from layer to layer, through what kernels of layers compute as well."""
    names: dict[Expr, str] = {layer.call: layer.name for layer in layers}
    found = []
    for layer in layers:
        for operand in operands_of(layer.call):
            size = 1
            for dim in tensor_type_of(operand).shape:
                size *= int(dim)
            found += [(names[one], layer.name, size) for one in _producers(operand, names)]
    return found


def _producers(operand: Expr, names: Mapping[Expr, str]) -> list[Expr]:
    """The layers whose results `operand` is made of."""
    found, seen, left = [], {operand}, [operand]
    while left:
        node = left.pop()
        if node in names:
            found.append(node)
        elif isinstance(node, Call) and is_between(node):
            left += [one for one in children(node) if one not in seen]
            seen.update(children(node))
    return found


def cheapest(
    exact: Mapping[str, float],
    integer: Mapping[str, float],
    links: Mapping[tuple[str, str], float],
    out: Collection[str],
) -> set[str]:
    """The layers in integers, as many as cost no more than they must, with those of `out` in float.

    `exact` and `integer` are the costs of each layer, `links` what a tensor between two layers costs where one of them
    is in integers and the other is not.
    """
    left: dict[str, dict[str, float]] = {name: {} for name in (*exact, _INTEGERS, _FLOAT)}

    def arc(begin: str, end: str, capacity: float) -> None:
        left[begin][end] = left[begin].get(end, 0.0) + capacity
        left[end].setdefault(begin, 0.0)

    for name, cost in exact.items():
        arc(_INTEGERS, name, 0.0 if name in out else cost)
        arc(name, _FLOAT, float("inf") if name in out else integer[name])
    for (begin, end), cost in links.items():
        arc(begin, end, cost)
        arc(end, begin, cost)
    while path := _path(left):
        flow = min(left[begin][end] for begin, end in path)
        for begin, end in path:
            left[begin][end] -= flow
            left[end][begin] += flow
    behind = _reached(left, _FLOAT, lambda begin, end: left[end][begin])
    return {name for name in exact if name not in behind}


def _path(left: Mapping[str, Mapping[str, float]]) -> list[tuple[str, str]]:
    """The arcs of a shortest path with capacity from one end to the other; none where there is none."""
    before = _reached(left, _INTEGERS, lambda begin, end: left[begin][end])
    path: list[tuple[str, str]] = []
    node = _FLOAT
    while node in before and node != _INTEGERS:
        path.append((before[node], node))
        node = before[node]
    return path


def _reached(
    left: Mapping[str, Mapping[str, float]], begin: str, capacity: Callable[[str, str], float]
) -> dict[str, str]:
    """The nodes that arcs with capacity lead to from `begin`, each with the one before it."""
    before, queue = {begin: begin}, deque([begin])
    while queue:
        node = queue.popleft()
        for other in left[node]:
            if other not in before and capacity(node, other) > _NOTHING:
                before[other] = node
                queue.append(other)
    return before
