"""Minimum cut of a graph with capacities: the nodes on the side of the source, by Dinic's algorithm.

minimum_cut({("s", "a"): 3, ("a", "t"): 2}, "s", "t")        {"s", "a"}
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from itertools import pairwise

#: A capacity that no cut crosses.
UNCUT = 1 << 60


def minimum_cut(capacities: Mapping[tuple[Hashable, Hashable], int], source: Hashable, sink: Hashable) -> set[Hashable]:
    """The nodes that the source reaches when a cut of least capacity is taken out; of several cuts, the first."""
    residual: dict[Hashable, dict[Hashable, int]] = {source: {}, sink: {}}
    for (a, b), capacity in capacities.items():
        residual.setdefault(a, {})[b] = residual.get(a, {}).get(b, 0) + capacity
        residual.setdefault(b, {}).setdefault(a, 0)
    while True:
        levels = _levels(residual, source)
        if sink not in levels:
            return set(levels)
        edges = {node: list(others) for node, others in residual.items()}
        while _augment(residual, edges, levels, source, sink):
            pass


def _levels(residual: Mapping[Hashable, Mapping[Hashable, int]], source: Hashable) -> dict[Hashable, int]:
    """The distance from the source of each node that capacity is left to."""
    levels, queue = {source: 0}, deque([source])
    while queue:
        node = queue.popleft()
        for other, capacity in residual[node].items():
            if capacity > 0 and other not in levels:
                levels[other] = levels[node] + 1
                queue.append(other)
    return levels


def _augment(
    residual: dict[Hashable, dict[Hashable, int]],
    edges: dict[Hashable, list[Hashable]],
    levels: Mapping[Hashable, int],
    source: Hashable,
    sink: Hashable,
) -> bool:
    """Send what one path from level to level takes; False where there is none. Edges without use leave `edges`."""
    path = [source]
    while path[-1] != sink:
        node = path[-1]
        while edges[node]:
            other = edges[node][-1]
            if residual[node][other] > 0 and levels.get(other) == levels[node] + 1:
                path.append(other)
                break
            edges[node].pop()
        else:
            path.pop()
            if not path:
                return False
            edges[path[-1]].pop()
    pairs = list(pairwise(path))
    amount = min(residual[a][b] for a, b in pairs)
    for a, b in pairs:
        residual[a][b] -= amount
        residual[b][a] += amount
    return True
