"""Loops as functions that call themselves.

    Loop(%n, %c, %x) { … }    ->    @loop(%i, %c, %n, %x) { if (%c && %i < %n) @loop(%i + 1, …) else (%x,) }

The call is in tail position, so a loop runs in constant space. What a body uses from around it becomes parameters of
the function. The types of what a loop carries are widened until the body maps them to themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx import AttributeProto

from tilewright.errors import ModelError
from tilewright.frontend.idioms import constant, dtype_of, full, shape_of
from tilewright.frontend.onnx.node import OnnxNode, reshape
from tilewright.frontend.onnx.schema import join_types
from tilewright.relay import op
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Tuple, Var, var
from tilewright.relay.ir.type import LIST, FuncType, TensorType, TupleType, Type, TypeCall
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op.host import empty_list, push, stack_list
from tilewright.relay.op.onnx_host import host_call

_MOST_WIDENINGS = 5  # rounds until the types of what a loop carries are general enough


@dataclass(frozen=True)
class Slices:
    """A tensor that a body gets one slice of in each step, along `axis`, from the back with `backwards`."""

    value: Expr
    axis: int
    backwards: bool


@dataclass(frozen=True)
class Body:
    """The graph that a loop repeats: with `slices` given that of a Scan, else that of a Loop."""

    node: OnnxNode
    graph: Any
    slices: Sequence[Slices] | None = None


@dataclass
class _Built:
    """The function of a loop, the types that its body turns the carried values into, and what it collects."""

    name: GlobalVar
    function: Function
    wider: list[Type]
    elements: list[TensorType]
    outer: list[Expr]
    counted: bool  # nothing but the trip count ends it


#: Trips of a loop whose collected values get a size of their own; more would not be addressable.
_MOST_COUNTED = 2**31 - 1


@dataclass
class _Captured:
    """Values from around a loop, each with the parameter that stands for it inside."""

    outer: list[Expr] = field(default_factory=list)
    inner: list[Var] = field(default_factory=list)
    env: dict[str, Any] = field(default_factory=dict)

    def add(self, node: OnnxNode, name: str, value: Expr) -> Var:
        """A new parameter for `value`."""
        param = var(f"{name}_outer", type_of(value))
        known = node.importer.symbolic.get(value)
        if known is not None:
            node.importer.symbolic[param] = known
        self.outer.append(value)
        self.inner.append(param)
        return param


def recursive_loop(
    body: Body, carried: list[Expr], limit: Expr, goes_on: Expr, axes: Sequence[int] | None = None
) -> Sequence[Expr | None]:
    """The final values that the loop carries, then what it collects, stacked along `axes`."""
    types = [type_of(value) for value in carried]
    for _ in range(_MOST_WIDENINGS):
        built = _build(body, types)
        if built is None:
            return [None] * len(body.node.proto.output)
        if built.wider == types:
            break
        types = built.wider
    else:
        body.node.unsupported("the types of what it carries differ in every iteration")
    body.node.importer.functions[built.name] = built.function
    initial = [_opaque(value, type_) for value, type_ in zip(carried, types)]
    trips = _trips(limit, goes_on) if built.counted else None
    lists = [empty_list(element, trips) for element in built.elements]
    arguments = [constant(0, "int64"), goes_on, limit, *initial, *lists, *built.outer]
    result = Call(built.name, arguments, span=body.node.span)
    found: list[Expr] = [result[index] for index in range(len(carried))]
    for index, element in enumerate(built.elements):
        axis = axes[index] if axes else 0
        found.append(stack_list(result[len(carried) + index], element, axis % (element.ndim + 1), trips))
    return found


def _trips(limit: Expr, goes_on: Expr) -> int | None:
    """The trip count of a loop that nothing else ends; None where only a run knows it."""
    if not isinstance(limit, Constant) or not isinstance(goes_on, Constant):
        return None
    trips = max(0, int(limit.data)) if goes_on.data else 0
    return trips if trips <= _MOST_COUNTED else None


def _build(body: Body, types: list[Type]) -> _Built | None:
    """The function of a loop that carries values of `types`; None where its body cannot be converted."""
    node, graph = body.node, body.graph
    captured = _capture(body)
    index, condition = var("iteration", shape=(), dtype="int64"), var("goes_on", shape=(), dtype="bool")
    limit = var("trip_count", shape=(), dtype="int64")
    names = [value.name for value in graph.input]
    own = names[: len(types)] if body.slices is not None else names[2:]
    params = [var(name, type_) for name, type_ in zip(own, types)]
    inputs: dict[str, Expr] = dict(zip(own, params))
    if body.slices is None:
        inputs |= {names[0]: _as_declared(graph.input[0], index), names[1]: _as_declared(graph.input[1], condition)}
    else:
        inputs |= dict(zip(names[len(types) :], _sliced(body, captured, index, limit)))
    outputs = node.importer.subgraph(graph, node, inputs, captured.env)
    values = [value for value in outputs if value is not None]
    if len(values) != len(outputs):
        return None
    again = constant(True, "bool") if body.slices is not None else as_scalar(node, values.pop(0))
    new, scans = values[: len(types)], values[len(types) :]
    elements = [_element(node, value) for value in scans]
    lists = [var(f"collected_{i}", TypeCall(LIST, (element,))) for i, element in enumerate(elements)]
    result = TupleType([*types, *[TypeCall(LIST, (element,)) for element in elements]])
    name = GlobalVar(f"loop_{node.importer.count_loop()}")
    own_params = [index, condition, limit, *params, *lists, *captured.inner]
    name.set_inferred_type(FuncType([type_of(param) for param in own_params], result))
    arguments = [
        index + constant(1, "int64"), again, limit,
        *[_opaque(value, type_) for value, type_ in zip(new, types)],
        *[push(list_, value) for list_, value in zip(lists, scans)],
        *captured.inner,
    ]  # fmt: skip
    test = op.logical_and(condition, index < limit)
    root = If(test, Call(name, arguments, span=node.span), Tuple([*params, *lists]))
    function = Function(own_params, root, result)
    wider = [_wider(node, old, type_of(value)) for old, value in zip(types, new)]
    counted = again is condition or (isinstance(again, Constant) and bool(again.data))
    return _Built(name, function, wider, elements, captured.outer, counted)


def _capture(body: Body) -> _Captured:
    """Parameters for the values that the body uses from around it; constants are used as they are."""
    captured = _Captured()
    for name in free_names(body.graph):
        value = body.node.env.get(name)
        if isinstance(value, Expr) and not isinstance(value, Constant):
            captured.env[name] = captured.add(body.node, name, value)
        elif value is not None:
            captured.env[name] = value
    return captured


def _sliced(body: Body, captured: _Captured, index: Expr, limit: Expr) -> list[Expr]:
    """The slices that a Scan's body gets in step `index` of `limit`."""
    found: list[Expr] = []
    for number, slices in enumerate(body.slices or ()):
        whole: Expr = slices.value
        if not isinstance(whole, Constant):
            whole = captured.add(body.node, f"sequence_{number}", whole)
        if shape_of(whole)[slices.axis] == 0:  # no step takes one: it decides the types of the body alone
            whole = full(0, [size or 1 for size in shape_of(whole)], dtype_of(whole))
        position: Expr = index
        if slices.backwards:
            position = limit - index - constant(1, "int64")
        found.append(op.take(whole, position, axis=slices.axis, mode="from_back"))
    return found


def as_scalar(node: OnnxNode, value: Expr) -> Expr:
    """A tensor of one element without dimensions."""
    return reshape(node, value, ()) if node.rank(value) else value


def _as_declared(declared: Any, value: Var) -> Expr:
    """A scalar in the rank that the body declares for it, which may be a vector of one element."""
    rank = len(declared.type.tensor_type.shape.dim) if declared.type.tensor_type.HasField("shape") else 0
    return op.reshape(value, newshape=(1,) * rank) if rank else value


def _wider(node: OnnxNode, old: Type, new: Type) -> Type:
    joined = join_types(old, new)
    if joined is None:
        raise ModelError(f"{node.label}: its body turns a value of type {old} into one of type {new}")
    return joined


def _element(node: OnnxNode, value: Expr) -> TensorType:
    found = type_of(value)
    if not isinstance(found, TensorType):
        node.unsupported(f"it collects values of type {found}; only tensors can be stacked")
    return found


def _opaque(value: Expr, wanted: Type) -> Expr:
    """The value, wrapped where what the loop carries is of no known rank."""
    if isinstance(wanted, TensorType) or type_of(value) == wanted:
        return value
    return host_call("Identity", [value], wanted)


# --------------------------- The names that a subgraph uses but does not define: what it takes from the graph around it
def free_names(graph: Any) -> list[str]:
    """Names read by `graph`, its outputs and the graphs within it that neither it nor they define, in order of use."""
    found: dict[str, None] = {}
    defined = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        inner = [name for subgraph in subgraphs(node) for name in free_names(subgraph)]
        for name in [*node.input, *inner]:
            if name and name not in defined:
                found[name] = None
        defined.update(node.output)
    for value in graph.output:
        if value.name not in defined:
            found[value.name] = None
    return list(found)


def subgraphs(node: Any) -> list[Any]:
    """The graphs among the attributes of a node."""
    found = [entry.g for entry in node.attribute if entry.type == AttributeProto.GRAPH]
    return found + [graph for entry in node.attribute if entry.type == AttributeProto.GRAPHS for graph in entry.graphs]
