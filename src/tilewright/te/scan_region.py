"""The part of its states that a scan needs to compute, where not all of the result is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.te.itervar import IterType, IterVar
from tilewright.te.operation import ComputeOp, Read
from tilewright.te.scan import ScanOp
from tilewright.te.stage import Stage
from tilewright.te.tensor import Tensor
from tilewright.tir.arith.range import Range
from tilewright.tir.expr import Expr, Var

Dimension = tuple[int, int]  # number of the state, and of its dimension


def spatial_axes(stages: Sequence[Stage], op: ScanOp) -> dict[Dimension, IterVar]:
    """An axis for each dimension of the states in which steps do not mix; dimensions that go together share one.

    Element i of such a dimension depends, step after step, on element i of the steps before alone: a part of it can be
    computed without the rest. `update[t, i, j] = sum(state[t - 1, i, k] * W[k, j])` has i as such a dimension, not j.
    """
    groups = _Groups(stages, op)
    axes: dict[Dimension, IterVar] = {}
    made: dict[object, IterVar] = {}
    for number, state in enumerate(op.states):
        for d in range(1, state.ndim):
            root = groups.find((number, d))
            if root in groups.mixed or any(size is not state.shape[d] for size in groups.sizes(root)):
                continue
            if root not in made:
                size = state.shape[d]
                var = Var(f"{op.name}.i{len(made)}", size.dtype)
                made[root] = IterVar(Range(0, size), var, IterType.DATA_PAR)
            axes[number, d] = made[root]
    return axes


def scan_reads(op: ScanOp, axes: Mapping[Dimension, IterVar]) -> list[Read]:
    """The reads of the scan's first steps and updates: of the dimensions in `axes` the part at hand."""
    found: list[Read] = []
    for parts, time in ((op.init, None), (op.update, op.scan_axis.var)):
        for number, tensor in enumerate(parts):
            rest = [axes[number, d].var if (number, d) in axes else None for d in range(1, tensor.ndim)]
            found.append((tensor, (time, *rest)))
    return found


class _Groups:
    """Dimensions joined where one is read at the index of the other; `mixed` are roots of those read otherwise."""

    def __init__(self, stages: Sequence[Stage], op: ScanOp) -> None:
        self.op = op
        self.parent: dict[object, object] = {}
        self.mixed: set[object] = set()
        self.numbers = {t: n for part in (op.states, op.update) for n, t in enumerate(part)}
        inside: set[Tensor] = set(op.states)  # what depends on the states
        for stage in stages:
            if any(t in inside for t in stage.op.input_tensors) and stage.op is not op:
                inside.update(stage.outputs)
        for stage in stages:
            if not inside.isdisjoint(stage.outputs) and stage.op is not op:
                self._note(stage, inside)

    def _note(self, stage: Stage, inside: set[Tensor]) -> None:
        axes = {iv.var: d for d, iv in enumerate(stage.op.axis)}
        first = stage.outputs[0]
        for other in stage.outputs[1:]:
            for d in range(len(axes)):
                self.join(self._node(first, d), self._node(other, d))
        for tensor, indices in stage.op.reads():
            for d, index in enumerate(indices) if tensor in inside else ():
                position = axes.get(index) if isinstance(index, Var) and isinstance(stage.op, ComputeOp) else None
                if position is None:
                    self.mix(self._node(tensor, d))
                else:
                    self.join(self._node(first, position), self._node(tensor, d))

    def _node(self, tensor: Tensor, d: int) -> object:
        number = self.numbers.get(tensor)
        return (tensor, d) if number is None else (number, d)

    def find(self, node: object) -> object:
        """The representative of the group of `node`."""
        while node in self.parent:
            node = self.parent[node]
        return node

    def join(self, a: object, b: object) -> None:
        """The two are in one group."""
        first, second = self.find(a), self.find(b)
        if first != second:
            self.parent[first] = second
            if first in self.mixed:
                self.mixed.add(second)

    def mix(self, node: object) -> None:
        """The group of `node` is needed whole."""
        self.mixed.add(self.find(node))

    def sizes(self, root: object) -> list[Expr]:
        """The sizes of the dimensions of states in the group."""
        return [
            size
            for n, state in enumerate(self.op.states)
            for d, size in enumerate(state.shape)
            if d and self.find((n, d)) == root
        ]
