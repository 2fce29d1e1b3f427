"""The search behind `tilewright bisect`: the first node of a model whose result differs from a reference's.

A value *differs* if the model cut off at it computes another result than the reference. The node looked for differs
while everything it reads does not. Cutting keeps the passes and the fusion before the cut as they are, so faults of
fused kernels show too; the search halves the ancestors of a value known to differ, some log2(nodes) compilations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.frontend.reference import Graph, Node

Array = np.ndarray[Any, Any]
#: Compiles a model and runs it on named inputs: the outputs by name, and the kernels with their source nodes.
Run = Callable[[Any, Mapping[str, Array]], tuple[dict[str, Array], list[tuple[str, str]]]]
#: True if two results of one value differ by more than the bound.
Differs = Callable[[Array, Array], bool]


@dataclass(frozen=True)
class Finding:
    """A node whose result differs although what it reads does not."""

    index: int
    node: Node
    value: str
    kernel: str
    """The kernel that computes it where the model is cut there, or "" where none names it."""
    minimal: Any
    """The smallest model found that still differs, and its inputs."""
    inputs: dict[str, Array]

    @property
    def label(self) -> str:
        """The node as people know it: its name, operator and output."""
        return f"{self.node.name or '(unnamed)'} ({self.node.operator}, output {self.value})"


class Bisection:
    """One search: `graph` is a straight line of nodes, `reference` the right value of each of its values."""

    def __init__(
        self, graph: Graph, inputs: Mapping[str, Array], reference: Mapping[str, Array], run: Run, differs: Differs
    ) -> None:
        self.graph, self.inputs, self.reference = graph, dict(inputs), reference
        self.run, self.differs = run, differs
        self.producers = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs if name}
        self.kernels: dict[str, list[tuple[str, str]]] = {}
        self._known: dict[str, bool] = {}
        self.compilations = 0

    def find(self) -> Finding | None:
        """The first node that differs; None where no output of the model does."""
        suspects = [name for name in self.graph.outputs if name in self.producers and self.is_wrong(name)]
        if not suspects:
            return None
        value = min(suspects, key=lambda name: self.producers[name])
        while True:
            value = self._first_wrong(self._ancestors(value), value)
            wrong = [name for name in self._inputs_of(self.producers[value]) if self.is_wrong(name)]
            if not wrong:
                return self._finding(value)
            value = wrong[0]

    def _first_wrong(self, candidates: list[str], known: str) -> str:
        """By halves, a value that differs, with the candidate before it right; `known` differs and comes last."""
        low, high = 0, len(candidates) - 1
        assert candidates[high] == known
        while low < high:
            middle = (low + high) // 2
            if self.is_wrong(candidates[middle]):
                high = middle
            else:
                low = middle + 1
        return candidates[high]

    def is_wrong(self, value: str) -> bool:
        """True if the model cut off at `value` computes something else than the reference."""
        if value not in self._known:
            result, kernels = self.run(self._model(self._needed([self.producers[value]]), [value], {}), self.inputs)
            self.compilations += 1
            self.kernels[value] = kernels
            self._known[value] = self.differs(result[value], self.reference[value])
        return self._known[value]

    # ------------------------------------------------------------------------------------------------------ graph
    def _inputs_of(self, index: int) -> list[str]:
        """Values computed by other nodes that a node reads and the reference knows."""
        names = self.graph.nodes[index].inputs
        return [name for name in names if name in self.producers and name in self.reference]

    def _needed(self, roots: list[int], stop: frozenset[str] = frozenset()) -> list[int]:
        """The nodes that `roots` need, themselves too, in order; nothing behind the values of `stop`."""
        found: set[int] = set()
        stack = list(roots)
        while stack:
            index = stack.pop()
            if index not in found:
                found.add(index)
                names = [n for n in self.graph.nodes[index].inputs if n in self.producers and n not in stop]
                stack += [self.producers[name] for name in names]
        return sorted(found)

    def _ancestors(self, value: str) -> list[str]:
        """One comparable value of each node before `value`, in order, `value` last."""
        last = self.producers[value]
        found = []
        for index in self._needed([last]):
            named = [name for name in self.graph.nodes[index].outputs if name in self.reference]
            found += named[:1] if index != last else []
        return [*found, value]

    def _model(self, indices: list[int], outputs: list[str], given: Mapping[str, Array]) -> Any:
        """A model of some nodes; the values `given` are its inputs beside those of the whole model that it reads."""
        return self.graph.model(indices, outputs, given, self.reference)

    # ---------------------------------------------------------------------------------------------------- finding
    def _finding(self, value: str) -> Finding:
        index = self.producers[value]
        node = self.graph.nodes[index]
        minimal, inputs = self._minimal(index, value)
        kernel = next((k for k, source in self.kernels[value] if node.names & set(source.split(";"))), "")
        return Finding(index, node, value, kernel, minimal, inputs)

    def _minimal(self, index: int, value: str) -> tuple[Any, dict[str, Array]]:
        """The node alone on the values it reads; where that is right, with more and more of what comes before."""
        members = {index}
        while True:
            read = [n for i in members for n in self.graph.nodes[i].inputs if n in self.producers]
            border = [name for name in dict.fromkeys(read) if self.producers[name] not in members]
            given = {name: self.reference[name] for name in border if name in self.reference}
            model = self._model(self._needed([index], frozenset(given)), [value], given)
            own = {name: self.inputs[name] for name in self.graph.inputs(model) if name in self.inputs}
            inputs = {**own, **given}
            result, _ = self.run(model, inputs)
            self.compilations += 1
            if self.differs(result[value], self.reference[value]) or not border:
                return model, inputs
            members |= {self.producers[name] for name in border}
