"""The choice of layouts over a graph as a problem that can be solved: a node an operator, an option a choice of it.

Options of an operator that chooses are all that it offers, whatever layout its input arrives in; of one that follows,
the layouts that it can follow, and plain. Between a value and its reader stands what changing the layout takes. Where
several readers want a value changed alike the problem counts the change for each of them, while the graph makes it
once: so what is found is a position to begin improving from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tilewright.relay.ir.expr import Call, Expr, TupleGetItem
from tilewright.relay.ir.registry import LayoutChoice
from tilewright.relay.transform.layout.pbqp import solve

#: The choices of a node, None being plain, given the layouts of its inputs.
Offers = Callable[[Expr, tuple[str | None, ...]], Sequence[LayoutChoice | None]]

#: What a change of a value from one layout to another takes.
Change = Callable[[Expr, str | None, str | None], float]


class LayoutProblem:
    """The problem of the `nodes` of a graph, whose values the operators of `inputs` read; `root` are its results."""

    def __init__(
        self,
        nodes: Sequence[Expr],
        inputs: Callable[[Expr], Sequence[Expr]],
        root: Sequence[Expr],
        offers: Offers,
        change: Change,
        out: Callable[[LayoutChoice], str | None],
        wanted: Callable[[LayoutChoice], Sequence[str | None]],
    ) -> None:
        self.nodes, self.inputs, self.root, self.offers, self.change = nodes, inputs, root, offers, change
        self.out, self.wanted = out, wanted
        self.options: dict[Expr, list[LayoutChoice | None]] = {}
        self.layouts: dict[Expr, list[str | None]] = {}
        for node in nodes:
            self._enter(node)

    def _enter(self, node: Expr) -> None:
        """The options of a node, and the layout of its value under each."""
        found: list[LayoutChoice | None] = []
        if isinstance(node, TupleGetItem):
            self.layouts[node] = list(self.layouts[node.tuple_value])
            self.options[node] = [None] * len(self.layouts[node])
            return
        for arriving in self._arrivals(node):
            found += [choice for choice in self.offers(node, arriving) if not _known(choice, found)]
            found = found or [None]  # plain, it does as before: it is one that follows
        found = found or [None]
        self.options[node] = found
        self.layouts[node] = [None if choice is None else self.out(choice) for choice in found]

    def _arrivals(self, node: Expr) -> Iterator[tuple[str | None, ...]]:
        """Layouts that the inputs of an operator may be in together: plain, and each blocked one wherever possible."""
        if not isinstance(node, Call):
            return
        known = [self.layouts.get(value, [None]) for value in self.inputs(node)]
        yield (None,) * len(known)
        for layout in dict.fromkeys(layout for some in known for layout in some if layout is not None):
            yield tuple(layout if layout in some else None for some in known)

    def solved(self) -> dict[Call, LayoutChoice | None]:
        """The choice of every operator that has several options."""
        costs = {node: [0.0 if one is None else one.cost for one in self.options[node]] for node in self.nodes}
        pairs: dict[tuple[Expr, Expr], list[list[float]]] = {}
        for node in self.nodes:
            for position, value in enumerate(self.inputs(node)):
                if value in self.options:
                    matrix = self._between(value, node, position)
                    pairs[value, node] = _added(pairs.get((value, node)), matrix)
        for value in self.root:
            costs[value] = [
                cost + self.change(value, layout, None) for cost, layout in zip(costs[value], self.layouts[value])
            ]
        chosen = solve(costs, pairs)
        return {
            node: self.options[node][position]
            for node, position in chosen.items()
            if isinstance(node, Call) and len(self.options[node]) > 1
        }

    def _between(self, value: Expr, node: Expr, position: int) -> list[list[float]]:
        """The cost matrix between the options of a value's operator and those of its reader."""
        if isinstance(node, TupleGetItem):
            size = len(self.options[node])
            return [[0.0 if row == column else float("inf") for column in range(size)] for row in range(size)]
        wants = [None if one is None else self.wanted(one)[position] for one in self.options[node]]
        return [[self.change(value, layout, want) for want in wants] for layout in self.layouts[value]]


def _added(first: list[list[float]] | None, second: list[list[float]]) -> list[list[float]]:
    if first is None:
        return second
    return [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(first, second, strict=True)]


def _known(choice: LayoutChoice | None, found: Sequence[LayoutChoice | None]) -> bool:
    """True if there is such a choice already."""
    if choice is None:
        return None in found
    return any(
        other is not None and (choice.inputs, choice.output, choice.attrs) == (other.inputs, other.output, other.attrs)
        for other in found
    )
