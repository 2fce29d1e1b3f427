"""Functions, branches, variables, and what passes its input on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.frontend.graph_walk import UNAVAILABLE
from tilewright.frontend.idioms import constant, reshape
from tilewright.frontend.tensorflow.node import TfNode, converts
from tilewright.frontend.tensorflow.values import Dims, Handle, expression
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, If, Tuple
from tilewright.relay.ir.type_of import type_of


@converts(
    "Identity", "StopGradient", "PreventGradient", "Snapshot", "CheckNumerics", "EnsureShape", "PlaceholderWithDefault",
    "Copy", "CopyHost", "DebugIdentity", "IdentityN", "OptimizationBarrier", "Enter", "RefEnter", "NextIteration",
    "RefNextIteration", "LoopCond",
)  # fmt: skip
def convert_identity(node: TfNode) -> Any:
    return list(node.values) if node.operator in ("IdentityN", "OptimizationBarrier") else node.values[0]


converts.functions({
    "Print": lambda node: node.values[0],
    "VarIsInitializedOp IsVariableInitialized": lambda node: constant(True, "bool"),
    "NoOp Assert PrintV2": lambda node: [],
    "PartitionedCall StatefulPartitionedCall RemoteCall": lambda node: node.importer.call(
        node.function("f"), node.values, f"{node.name}/"
    ),
})  # fmt: skip


@converts("Placeholder")
def convert_placeholder(node: TfNode) -> Any:
    node.unsupported("an input that the signature does not name")


# ----------------------------------------------------------------------------------------------------------- variables
@converts("VarHandleOp", "VariableV2", "Variable", "TemporaryVariable")
def convert_handle(node: TfNode) -> Any:
    if node.operator == "VarHandleOp":
        return Handle(node.name)
    return node.importer.variable(node.name)


@converts("ReadVariableOp", "VariableShape")
def convert_read(node: TfNode) -> Any:
    value = resolved(node, 0)
    if node.operator == "VariableShape":
        return Dims(type_of(value).shape, node.type("out_type", "int32"))  # type: ignore[attr-defined]
    return value


def resolved(node: TfNode, index: int) -> Expr:
    """Input `index`; of a variable's handle, its value."""
    value = node.values[index] if index < len(node.values) else None
    return node.importer.variable(value.name) if isinstance(value, Handle) else node[index]


# ----------------------------------------------------------------------------------------------------------- functions
@converts("If", "StatelessIf")
def convert_if(node: TfNode) -> list[Any]:
    names = (node.function("then_branch"), node.function("else_branch"))
    condition = truth(node[0])
    if isinstance(condition, Constant):
        return node.importer.call(names[0 if condition.data else 1], node.values[1:], f"{node.name}/")
    results = [node.importer.call(name, node.values[1:], f"{node.name}/") for name in names]
    return _chosen(node, condition, results[0], results[1])


@converts("Case", "StatelessCase")
def convert_case(node: TfNode) -> list[Any]:
    names = node.functions("branches")
    if not names:
        node.bad("has no branches")
    position = node[0]
    if isinstance(position, Constant):
        index = int(position.data)
        chosen = names[index if 0 <= index < len(names) else -1]
        return node.importer.call(chosen, node.values[1:], f"{node.name}/")
    results = [node.importer.call(name, node.values[1:], f"{node.name}/") for name in names]
    made = results[-1]
    for index in range(len(results) - 2, -1, -1):
        made = _chosen(node, op.equal(position, index), results[index], made)
    return made


def truth(value: Expr) -> Expr:
    """The truth of a condition: a number is true where it is not 0."""
    if str(type_of(value).dtype) != "bool":  # type: ignore[attr-defined]
        value = Constant(value.data != 0) if isinstance(value, Constant) else op.not_equal(value, 0)
    return value


def _chosen(node: TfNode, condition: Expr, first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    left, right = ([expression(value) for value in side] for side in (first, second))
    if any(value is UNAVAILABLE for value in (*left, *right)):
        return [UNAVAILABLE]
    if not all(isinstance(value, Expr) for value in (*left, *right)):
        node.unsupported("branches that return other than tensors")
    if [type_of(value) for value in left] != [type_of(value) for value in right]:
        node.unsupported("branches whose results have different types")
    made = If(reshape(condition, ()), Tuple(left), Tuple(right))
    return [made[index] for index in range(len(left))]
