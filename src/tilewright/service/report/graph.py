"""Graphs as plain data: the nodes of a model as imported, and its fused functions after the passes.

{"nodes": [{"id": 3, "op": "nn.conv2d", "name": "/conv1/Conv", "type": "1×64×112×112 float32", …}], "edges": [[0, 3]]}

Constants are listed with the node that reads them, and tuples are no nodes: edges go through them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.driver.build import ModelGraphs
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Let, Tuple, TupleGetItem, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import TensorType, TupleType, Type
from tilewright.relay.ir.visitor import calls, children, post_order
from tilewright.relay.op.views import is_reshape

#: The most characters of the value of an attribute.
_VALUE = 80

#: Attributes that name the order of axes; the first that is not empty is that of a call's result.
_LAYOUTS = ("out_layout", "data_layout", "layout", "dst_layout")


class _Graph:
    """Nodes and edges while they are collected; `first` is the number of the first node."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.nodes: list[dict[str, Any]] = []
        self.edges: dict[tuple[int, int], None] = {}
        self.numbers: dict[Expr, int] = {}
        self.bound: dict[Expr, Expr] = {}

    def add(self, expr: Expr | None, operands: Sequence[Expr], **facts: Any) -> int:
        """The number of a new node that reads `operands`."""
        number = self.first + len(self.nodes)
        weights = [short_type(kid.tensor_type) for kid in operands if isinstance(kid, Constant)]
        self.nodes.append({"id": number, **facts, **({"weights": weights} if weights else {})})
        for source in dict.fromkeys(source for kid in operands for source in self.sources(kid)):
            self.edges[source, number] = None
        if expr is not None:
            self.numbers[expr] = number
        return number

    def sources(self, expr: Expr) -> list[int]:
        """The nodes that the value of an expression comes from, through tuples and bindings."""
        found: list[int] = []
        stack, seen = [expr], set()
        while stack:
            one = stack.pop()
            if one in seen:
                continue
            seen.add(one)
            if one in self.numbers:
                found.append(self.numbers[one])
            elif isinstance(one, TupleGetItem) and isinstance(one.tuple_value, Tuple):
                stack.append(one.tuple_value.fields[one.index])
            elif isinstance(one, Tuple | TupleGetItem):
                stack.extend(reversed(children(one)))
            elif isinstance(one, Let):
                stack.append(one.body)
            elif one in self.bound:
                stack.append(self.bound[one])
        return found

    def data(self) -> dict[str, Any]:
        """Plain data."""
        return {"nodes": self.nodes, "edges": [list(edge) for edge in self.edges]}


def imported_graph(mod: IRModule) -> dict[str, Any]:
    """The nodes and edges of a typed module's `main`."""
    main, graph = mod["main"], _Graph()
    for param in main.params:
        graph.add(param, (), op="input", name=param.name, type=short_type(param.checked_type))
    for node in post_order(main.body):
        if isinstance(node, Let):
            graph.bound[node.var] = node.value
        if node in graph.numbers or isinstance(node, Constant | Tuple | TupleGetItem | Let | Var):
            continue
        if isinstance(node, Call):
            graph.add(node, _operands(node), **call_facts(node))
        elif children(node):
            graph.add(node, children(node), op=type(node).__name__, name="", type=short_type(node.checked_type))
    _add_outputs(graph, main)
    return graph.data()


def fused_graph(graphs: ModelGraphs, names: Mapping[Call, str]) -> tuple[dict[str, Any], dict[Call, int]]:
    """The segments' fused calls as `groups` with `edges`, and the number of each call that a kernel runs.

    A group without a `kernel` moves no bytes.
    """
    groups: list[dict[str, Any]] = []
    edges: list[list[int]] = []
    numbers: dict[Call, int] = {}
    for segment, mod in graphs.segments:
        main, graph = mod["main"], _Graph(len(groups))
        for param in main.params:
            graph.add(param, (), op="input", name=param.name, type=short_type(param.checked_type), segment=segment)
        for call in calls(main.body):
            inner = calls(call.op.body) if isinstance(call.op, Function) else [call]
            facts = {"segment": segment, "nodes": [call_facts(one) for one in inner], "layout": _layout_of(inner)}
            if call in names:
                facts["kernel"] = names[call]
            op = _group_title(inner)
            numbers[call] = graph.add(
                call, call.args, op=op, name=call.span, type=short_type(call.checked_type), **facts
            )
        _add_outputs(graph, main)
        groups += graph.nodes
        edges += [list(edge) for edge in graph.edges]
    return {"groups": groups, "edges": edges}, {call: numbers[call] for call in names if call in numbers}


def groups_of_nodes(nodes: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]]) -> dict[int, list[int]]:
    """The groups that compute each node of the model, by the names of source nodes."""
    by_name: dict[str, dict[int, None]] = {}
    for group in groups:
        names = {name for part in (group, *group.get("nodes", ())) for name in str(part["name"]).split(";")}
        for name in names - {""}:
            by_name.setdefault(name, {})[group["id"]] = None
    found = {}
    for node in nodes:
        of = {group: None for name in str(node["name"]).split(";") for group in by_name.get(name, ())}
        if of:
            found[node["id"]] = list(of)
    return found


def call_facts(call: Call) -> dict[str, Any]:
    """The operator with its category of fusion as `kind`, source node, attributes and type of a call."""
    name = getattr(call.op, "name", type(call.op).__name__)
    facts = {"op": name, "name": call.span, "type": short_type(call.checked_type)}
    if isinstance(call.op, Op):
        facts["kind"] = call.op.pattern.name.lower()
    attrs = dict(_short_attributes(call.attrs))
    return facts | ({"attrs": attrs} if attrs else {})


def short_type(type_: Type) -> str:
    """A type in a few characters, `1×64×56×56 float32`; of a tuple its fields."""
    if isinstance(type_, TensorType):
        return f"{'×'.join(map(str, type_.shape)) or 'scalar'} {type_.dtype}"
    if isinstance(type_, TupleType):
        return ", ".join(map(short_type, type_.fields))
    return str(type_)[:_VALUE]


def _short_attributes(attrs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The attributes that say something, as texts."""
    for key, value in attrs.items():
        if value is None or value == "" or key == "schedule":
            continue
        text = "×".join(map(str, value)) if _are_numbers(value) else str(value)
        yield key, text if len(text) <= _VALUE else f"{text[: _VALUE - 1]}…"


def _are_numbers(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(one, int | float) for one in value)


def _operands(call: Call) -> tuple[Expr, ...]:
    """The arguments; before them the function that is called, where it is a value."""
    return children(call)


def _group_title(inner: Sequence[Call]) -> str:
    """The operators of a group, `conv2d + add + relu`."""
    named = [getattr(one.op, "name", "").rpartition(".")[2] for one in inner]
    shown = [name.removeprefix("contrib_") for name in named if name]
    return " + ".join(shown if len(shown) <= 5 else [*shown[:4], f"{len(shown) - 4} more"])


def _layout_of(inner: Sequence[Call]) -> str:
    """The order of axes of a group's result, as the last call that states one does; "" where none does."""
    for call in reversed(inner):
        if is_reshape(call):
            return ""
        found = next((str(call.attrs[name]) for name in _LAYOUTS if call.attrs.get(name)), "")
        if found:
            return found
    return ""


def _add_outputs(graph: _Graph, main: Function) -> None:
    """A node for each result."""
    body = main.body
    while isinstance(body, Let):
        body = body.body
    fields = body.fields if isinstance(body, Tuple) else (body,)
    names = list(main.attrs.get("output_names", ()) or ())
    for number, field in enumerate(fields):
        name = names[number] if len(names) == len(fields) else f"output {number}"
        graph.add(None, (field,), op="output", name=name, type=short_type(field.checked_type))
