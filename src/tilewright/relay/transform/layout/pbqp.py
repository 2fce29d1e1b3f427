"""Partitioned boolean quadratic problems: one option for each node, costs of options and of pairs of neighbours'.

    costs = {"a": [0, 3], "b": [2, 0]}
    pairs = {("a", "b"): [[0, 9], [5, 0]]}                 # rows: options of "a", columns: of "b"
    solve(costs, pairs)                                    # {"a": 0, "b": 0}

A node of one or two neighbours is folded into these, which loses nothing (Scholz and Eckstein, "Register Allocation for
Irregular Architectures", LCTES 2002): chains are solved by what is dynamic programming, and so are all graphs of
parallel and serial parts. Where every node that is left has more neighbours, the one with the most takes the option
that looks best beside the best of each.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Node = TypeVar("Node", bound=Hashable)
Matrix = NDArray[np.float64]

#: Neighbours of a node that can be folded into them without loss.
_FOLDED = 2


def solve(costs: Mapping[Node, Sequence[float]], pairs: Mapping[tuple[Node, Node], Any]) -> dict[Node, int]:
    """The number of the option of each node that has the least sum of costs; see the module's docstring."""
    graph = _Graph(costs, pairs)
    folded: list[tuple[Node, Matrix, dict[Node, Matrix]]] = []
    while graph.costs:
        node = min(graph.costs, key=lambda one: len(graph.around[one]))
        if len(graph.around[node]) > _FOLDED:
            node = max(graph.costs, key=lambda one: len(graph.around[one]))
            graph.settle(node)
        folded.append((node, *graph.fold(node)))
    chosen: dict[Node, int] = {}
    for node, own, around in reversed(folded):
        chosen[node] = int(np.argmin(own + sum(matrix[:, chosen[other]] for other, matrix in around.items())))
    return chosen


class _Graph(Generic[Node]):
    """The reduced graph: costs of options, and around each node the matrices to its neighbours, its own options as
    rows.
    """

    def __init__(self, costs: Mapping[Node, Sequence[float]], pairs: Mapping[tuple[Node, Node], Any]) -> None:
        self.costs: dict[Node, Matrix] = {node: np.array(own, float) for node, own in costs.items()}
        self.around: dict[Node, dict[Node, Matrix]] = {node: {} for node in costs}
        for (first, second), matrix in pairs.items():
            self._join(first, second, np.array(matrix, float))

    def _join(self, first: Node, second: Node, matrix: Matrix) -> None:
        known = self.around[first].get(second)
        total = matrix if known is None else known + matrix
        self.around[first][second], self.around[second][first] = total, total.T

    def fold(self, node: Node) -> tuple[Matrix, dict[Node, Matrix]]:
        """Take a node of at most two neighbours out, its costs put upon them; what it was."""
        own, around = self.costs.pop(node), self.around.pop(node)
        for other in around:
            del self.around[other][node]
        if len(around) == 1:
            ((other, matrix),) = around.items()
            self.costs[other] += (own[:, None] + matrix).min(axis=0)
        elif around:
            (first, left), (second, right) = around.items()
            self._join(first, second, (own[:, None, None] + left[:, :, None] + right[:, None, :]).min(axis=0))
        return own, around

    def settle(self, node: Node) -> None:
        """Fix a node to the option that is best beside the best of every neighbour, and leave it without neighbours."""
        own, around = self.costs[node], self.around[node]
        beside = sum((matrix + self.costs[other]).min(axis=1) for other, matrix in around.items())
        best = int(np.argmin(own + beside))
        for other, matrix in around.items():
            self.costs[other] += matrix[best]
            del self.around[other][node]
        self.around[node] = {}
        self.costs[node] = np.where(np.arange(len(own)) == best, own, np.inf)
