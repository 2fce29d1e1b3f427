"""The walk over a TensorFlow graph from its results: operators converted, constants folded, problems collected.

Values are computed once, when something reads them, so that what saves or checks the model is never looked at.
Operators of branches (Switch) compute all their results; Merge chooses among them by the condition that they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.graph_walk import UNAVAILABLE, GraphWalk
from tilewright.frontend.messages import Record
from tilewright.frontend.tensorflow.declared_shapes import contradiction, miscounted_steps, position_of_output
from tilewright.frontend.tensorflow.frames import EXITS, Frame, Frames, node_of
from tilewright.frontend.tensorflow.load import Program
from tilewright.frontend.tensorflow.node import GraphImporter, TfNode, converts
from tilewright.frontend.tensorflow.tables import table_of
from tilewright.frontend.tensorflow.values import DEAD, Dims, Handle, Items, Rows
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, Function, GlobalVar

#: Operators converted at most, those of a function as often as it is called.
_MOST_OPERATORS = 1 << 18
#: Functions that call functions.
_MOST_DEPTH = 60
#: Loops of TensorFlow 1 within loops.
_MOST_LOOPS = 20
#: What changes a variable while the model runs.
_ASSIGNS = (
    "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "Assign", "AssignAdd", "AssignSub",
    "ResourceScatterUpdate", "ResourceScatterAdd",
)  # fmt: skip


class Scope:
    """The scope of a graph or of one function call: its nodes, their known results, its path."""

    def __init__(self, nodes: Mapping[str, Record], name: str, is_function: bool) -> None:
        self.nodes = nodes
        self.name = name
        self.is_function = is_function
        self.values: dict[str, list[Any]] = {}
        #: Of values behind a Switch, on which side of which condition they are.
        self.sides: dict[str, dict[Expr, bool]] = {}
        #: The loops of TensorFlow 1 in it.
        self.frames: Frames | None = None

    def frame_of(self, exit_: Record, label: str) -> Frame:
        """The loop that an Exit leaves."""
        if self.frames is None:
            self.frames = Frames(self.nodes, label)
        return self.frames.of_exit(exit_)

    def within(self, values: Mapping[str, list[Any]], name: str) -> Scope:
        """The same graph, in which other values are known."""
        inner = Scope(self.nodes, name, self.is_function)
        inner.frames, inner.values = self.frames, dict(values)
        return inner


class Importer(GraphWalk, GraphImporter):
    """Converts one program; each `Scope` has its own values."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.label, converts)
        self.program = program
        self.loops: dict[GlobalVar, Function] = {}
        self._converted = 0
        self._depth = 0
        self._variables: dict[str, Constant] = {}
        self._bodies: dict[str, dict[str, Record]] = {}
        self._leaving: list[tuple[Scope, Frame]] = []
        #: Variables that the model changes while it runs, the operator that does and where it is.
        self._assigned: list[tuple[str | None, str, str]] = []

    # ---------------------------------------------------------------------------------------------------- the results
    def run(self, inputs: Mapping[str, Expr], outputs: Sequence[str]) -> list[Any]:
        """The tensors `outputs` of the graph, given others by name."""
        scope = Scope(self.program.nodes, "", False)
        for tensor, value in inputs.items():
            name, _, position = tensor.partition(":")
            if name not in scope.nodes or (position or "0") != "0":
                raise ModelError(f"{self.program.label}: the input {tensor!r} is no tensor of the graph")
            scope.values[name] = [value]
        found = [self._tensor(scope, tensor) for tensor in outputs]
        self._refuse_changes()
        return found

    def call(self, function: str, arguments: Sequence[Any], scope: str) -> list[Any]:
        """The results of a function of the library."""
        found = self.program.functions.get(function)
        if found is None:
            raise ModelError(f"{self.program.label}: {scope or 'the graph'} calls {function!r}, which is not there")
        args = found.signature.input_arg
        if len(args) != len(arguments):
            raise ModelError(f"{function!r} takes {len(args)} values, not {len(arguments)}")
        if self._depth >= _MOST_DEPTH:
            raise ModelError(f"{self.program.label}: functions call each other {_MOST_DEPTH} deep")
        if function not in self._bodies:
            self._bodies[function] = {node.name: node for node in found.node_def}
        inner = Scope(self._bodies[function], scope, True)
        inner.values = {arg.name: [value] for arg, value in zip(args, arguments)}
        self._depth += 1
        try:
            for name in found.control_ret.values():
                self._check_effects(inner, name)
            return [self._tensor(inner, found.ret[arg.name]) for arg in found.signature.output_arg]
        finally:
            self._depth -= 1

    def _check_effects(self, scope: Scope, name: str) -> None:
        node = scope.nodes.get(name)
        if node is None or node.op not in _ASSIGNS:
            return
        handle = self._tensor(scope, node.input[0])
        changed = handle.name if isinstance(handle, Handle) else None
        self._assigned.append((changed, node.op, f"{node.op} {scope.name + name!r}"))

    def _refuse_changes(self) -> None:
        """Refuse changes of variables that results depend on, which those of a seed without draws do not."""
        for changed, operator, position in self._assigned:
            if changed is None or changed in self._variables:
                self.missing.add(
                    operator, position, "it changes a variable while the model runs, on which results depend"
                )

    def table(self, name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
        """Keys and values of a hash table, by the name of its node."""
        return table_of(name, self.program.nodes, self.program.functions, self.program.label)

    def variable(self, name: str) -> Constant:
        """The value of a variable, by the name of its node."""
        if name not in self._variables:
            node = self.program.nodes.get(name)
            shared = (
                bytes(node.attr["shared_name"].s).decode() if node is not None and "shared_name" in node.attr else ""
            )
            stored = self.program.variables
            keys = [self.program.keys.get(name), name, shared, f"{shared}/.ATTRIBUTES/VARIABLE_VALUE"]
            key = next((one for one in keys if one and stored is not None and stored.is_numbers(one)), None)
            if stored is None or key is None:
                raise ModelError(f"{self.program.label} has no value for the variable {shared or name!r}")
            self._variables[name] = Constant(stored.array(key))
        return self._variables[name]

    # ------------------------------------------------------------------------------------------------------- the walk
    def _tensor(self, scope: Scope, tensor: str) -> Any:
        """A value by its name, everything that it needs first."""
        stack = [tensor]
        entered: set[str] = set()
        while stack:
            name = node_of(stack[-1])
            if name in scope.values:
                stack.pop()
                continue
            node = scope.nodes.get(name)
            if node is None:
                raise ModelError(f"{self.program.label}: {tensor!r} needs {name!r}, which is not there")
            if node.op in EXITS:
                inputs: Sequence[str] = _read_by(scope.frame_of(node, self.program.label))
            else:
                inputs = [one for one in node.input if not one.startswith("^")]
            needed = [one for one in inputs if node_of(one) not in scope.values]
            if needed and name not in entered:
                entered.add(name)
                stack.extend(needed)
                continue
            if needed:
                raise ModelError(f"{self.program.label}: {node.op} {scope.name + name!r} needs its own result")
            stack.pop()
            if node.op in EXITS:
                self._leave(scope, node)
            else:
                self._convert(scope, node)
        return self._known(scope, tensor)

    def _leave(self, scope: Scope, exit_: Record) -> None:
        """Run the loop that an Exit leaves, and enter the values of all its exits."""
        frame = scope.frame_of(exit_, self.program.label)
        if len(self._leaving) >= _MOST_LOOPS:
            raise ModelError(
                f"{self.program.label}: more than {_MOST_LOOPS} loops within each other, at {frame.name!r}"
            )
        values = [scope.values[one.enter][0] for one in frame.carried]
        node = TfNode(exit_, scope.name + frame.name, values, self)
        self._leaving.append((scope, frame))
        try:
            results = [UNAVAILABLE] if any(value is UNAVAILABLE for value in values) else self._results(node)
        finally:
            self._leaving.pop()
        for number, one in enumerate(frame.carried):
            for name in one.exits:
                scope.values[name] = [UNAVAILABLE if results == [UNAVAILABLE] else results[number]]

    def frame(self, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The test and the body of the loop that is being left."""
        scope, frame = self._leaving[-1]

        def inside(values: Sequence[Any], label: str) -> Scope:
            known = {one: scope.values[one] for one in _read_by(frame)}
            known |= {one.merge: [value, DEAD] for one, value in zip(frame.carried, values)}
            known |= {one.switch: [DEAD, value] for one, value in zip(frame.carried, values) if one.switch}
            return scope.within(known, label)

        def test(values: Sequence[Any], label: str) -> Any:
            return self._tensor(inside(values, label), frame.test)

        def body(values: Sequence[Any], label: str) -> list[Any]:
            inner = inside(values, label)
            return [self._tensor(inner, one.following) for one in frame.carried]

        return test, body

    def _known(self, scope: Scope, tensor: str) -> Any:
        name = node_of(tensor)
        values = scope.values[name]
        if values == [UNAVAILABLE]:
            return UNAVAILABLE
        node = scope.nodes.get(name)
        position = position_of_output(node, tensor, scope.is_function) if node is not None else 0
        if not 0 <= position < len(values):
            raise ModelError(f"{self.program.label}: {tensor!r} is read of {len(values)} results")
        wrong = contradiction(node, position, values[position]) if node is not None else None
        if node is not None and wrong is not None:
            self.missing.add(node.op, f"{node.op} {scope.name + name!r}", wrong)
            scope.values[name] = [UNAVAILABLE]
            return UNAVAILABLE
        return values[position]

    def _convert(self, scope: Scope, record: Record) -> None:
        self._converted += 1
        if self._converted > _MOST_OPERATORS:
            raise ModelError(f"{self.program.label}: it comes to more than {_MOST_OPERATORS} operators")
        given = [one for one in record.input if not one.startswith("^")]
        values = [self._known(scope, one) for one in given]
        node = TfNode(record, scope.name + record.name, values, self)
        scope.sides[record.name] = sides = self._sides(scope, record)
        if any(value is UNAVAILABLE for value in values):
            scope.values[record.name] = [UNAVAILABLE]
        elif record.op == "Switch":
            scope.values[record.name] = _switched(node)
            sides[node[1]] = True  # of which position is read, `_merged` tells
        elif record.op == "Merge":
            scope.values[record.name] = self._merged(scope, given, node)
        elif any(value is DEAD for value in values):
            scope.values[record.name] = [DEAD] * 16
        elif record.op == "Range" and (fault := miscounted_steps(record, scope.nodes, scope.values)):
            self.missing.add(record.op, node.label, fault)
            scope.values[record.name] = [UNAVAILABLE]
        else:
            scope.values[record.name] = self._results(node)

    def _sides(self, scope: Scope, record: Record) -> dict[Expr, bool]:
        found: dict[Expr, bool] = {}
        for one in record.input:
            found.update(self._side_of(scope, one))
        return found

    def _merged(self, scope: Scope, given: Sequence[str], node: TfNode) -> list[Any]:
        """The results of Merge: the value of the branch taken, and the index of that."""
        alive = [position for position, value in enumerate(node.values) if value is not DEAD]
        if len(alive) == 1:
            return [node.values[alive[0]], Dims([alive[0]], scalar=True)]
        if len(node.values) != 2 or not alive:
            node.unsupported("branches that meet other than in pairs")
        first, second = (self._side_of(scope, one) for one in given)
        apart = [key for key in first if key in second and first[key] != second[key]]
        if len(apart) != 1:
            node.unsupported("branches whose condition is not found")
        condition = apart[0]
        scope.sides[node.name.removeprefix(scope.name)].pop(condition, None)
        positions = (0, 1) if first[condition] else (1, 0)
        chosen = op.where(condition, node[positions[0]], node[positions[1]])
        return [chosen, op.where(condition, Dims([positions[0]], scalar=True).expression(),
                                 Dims([positions[1]], scalar=True).expression())]  # fmt: skip

    def _side_of(self, scope: Scope, tensor: str) -> dict[Expr, bool]:
        name = node_of(tensor)
        found = dict(scope.sides.get(name, {}))
        giver = scope.nodes.get(name)
        if giver is not None and giver.op == "Switch":
            for key in list(found)[-1:]:
                found[key] = tensor.endswith(":1")
        return found

    def _results(self, node: TfNode) -> list[Any]:
        found = self.convert(node, node.operator, node.name, converts.find(node.operator))
        return [UNAVAILABLE] if found is None or any(value is UNAVAILABLE for value in found) else found

    def finished(self, value: Any, span: str, done: dict[Expr, Expr]) -> Any:
        """As `GraphWalk`, of lists of tensors too; shapes and handles stay."""
        finished = super().finished
        if isinstance(value, Expr):
            return finished(value, span, done)
        if isinstance(value, Items):
            value.items = [None if one is None else finished(one, span, done) for one in value.items]
        if isinstance(value, Rows) and value.data is not None:
            value.data = finished(value.data, span, done)
        return value


def _read_by(frame: Frame) -> list[str]:
    """The values that a loop needs before it runs: all that comes in."""
    return [*(one.enter for one in frame.carried), *frame.read]


def _switched(node: TfNode) -> list[Any]:
    """The results of Switch: the value for the false branch, and for the true one; `DEAD` in a branch not taken."""
    condition = node[1]
    if isinstance(condition, Constant):
        taken = bool(condition.data)
        return [DEAD if taken else node.values[0], node.values[0] if taken else DEAD]
    return [node.values[0], node.values[0]]
