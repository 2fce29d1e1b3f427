"""Graphs as the classic graph executor's JSON: written of compiled models, read and run over functions of a library.

    {"nodes": [{"op": "null", "name": "x", "inputs": []},
               {"op": "tvm_op", "name": "f", "attrs": {"func_name": "f", …}, "inputs": [[0, 0, 0]]}],
     "arg_nodes": [0], "heads": [[1, 0, 0]], "node_row_ptr": [0, 1, 2],
     "attrs": {"dltype": ["list_str", …], "storage_id": ["list_int", …], "shape": ["list_shape", …]}}

An entry [node, index, version] is one result of a node; `attrs` has a type, a memory and a shape for each entry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.compat.runtime.array import NDArray, array, empty, to_numpy
from tilewright.driver.build import extract_tasks
from tilewright.errors import InputError, ModelError
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType, tensor_types
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.transform.memory.in_place import is_renamed
from tilewright.relay.transform.memory.plan_memory import plan_memory
from tilewright.runtime.signature import TensorSpec
from tilewright.support.dtype import DType

#: The function of nodes whose result is the memory of their input, and of those that copy it.
NOP, COPY = "__nop", "__copy"


# ----------------------------------------------------------------------------------------------------- writing
def graph_of(mod: IRModule) -> tuple[str, dict[str, NDArray]]:
    """The graph of a module that went through the graph passes, and its constants by the names that they have there."""
    return _Writer(mod).graph()


class _Writer:
    """One graph while it is written."""

    def __init__(self, mod: IRModule) -> None:
        self.main = mod["main"]
        self.plan = plan_memory(mod)
        calls = [node for node in post_order(self.main.body) if isinstance(node, Call)]
        self.names = extract_tasks(calls)[1]
        self.nodes: list[dict[str, Any]] = []
        self.entries: dict[Expr, list[list[int]]] = {}
        self.row_ptr, self.memories = [0], dict[Any, int]()
        self.columns: dict[str, list[Any]] = {"dltype": [], "storage_id": [], "shape": []}
        self.constants: dict[str, NDArray] = {}

    def graph(self) -> tuple[str, dict[str, NDArray]]:
        """The JSON text, and the constants."""
        for param in self.main.params:
            self._add(param, {"op": "null", "name": param.name, "inputs": []})
        for node in post_order(self.main.body):
            self._visit(node)
        kinds = {"dltype": "list_str", "storage_id": "list_int", "shape": "list_shape"}
        made = {
            "nodes": self.nodes,
            "arg_nodes": [number for number, node in enumerate(self.nodes) if node["op"] == "null"],
            "heads": self.entries[self.main.body],
            "attrs": {key: [kinds[key], column] for key, column in self.columns.items()},
            "node_row_ptr": self.row_ptr,
        }
        return json.dumps(made, indent=2), self.constants

    def _visit(self, node: Expr) -> None:
        if isinstance(node, Constant):
            name = f"p{len(self.constants)}"
            self.constants[name] = array(node.data)
            self._add(node, {"op": "null", "name": name, "inputs": []})
        elif isinstance(node, Tuple):
            self.entries[node] = [entry for part in node.fields for entry in self.entries[part]]
        elif isinstance(node, TupleGetItem):
            self.entries[node] = [self.entries[node.tuple_value][node.index]]
        elif isinstance(node, Call):
            assert isinstance(node.op, Function)
            name = NOP if is_renamed(node) else self.names[node]
            inputs = [entry for given in node.args for entry in self.entries[given]]
            counts = {"num_inputs": str(len(inputs)), "num_outputs": str(len(tensor_types(node.checked_type)))}
            attrs = {"func_name": name, "flatten_data": "0", **counts}
            self._add(node, {"op": "tvm_op", "name": self.names[node], "attrs": attrs, "inputs": inputs})

    def _add(self, expr: Expr, node: dict[str, Any]) -> None:
        types = tensor_types(expr.checked_type)
        self.entries[expr] = [[len(self.nodes), index, 0] for index in range(len(types))]
        self.nodes.append(node)
        self.row_ptr.append(self.row_ptr[-1] + len(types))
        for position, type_ in zip(self._positions(expr, len(types)), types, strict=True):
            assert isinstance(type_, TensorType)
            self.columns["dltype"].append(str(type_.dtype))
            self.columns["shape"].append([size if isinstance(size, int) else -1 for size in type_.shape])
            self.columns["storage_id"].append(self.memories.setdefault(position, len(self.memories)))

    def _positions(self, expr: Expr, count: int) -> list[Any]:
        """The identity of each tensor's memory; an input that nothing reads has its own."""
        known = self.plan.storage.get(expr)
        return [(one.where, one.position, one.buffer) for one in known] if known else [(expr, i) for i in range(count)]


# ----------------------------------------------------------------------------------------------------- reading
@dataclass(frozen=True)
class GraphNode:
    """One node: an input (`function` None), or a call of `function` on `inputs`, which are numbers of entries."""

    name: str
    function: str | None = None
    inputs: Sequence[int] = ()
    outputs: Sequence[int] = ()
    flatten: bool = False


@dataclass
class Graph:
    """A graph that was read: its nodes, the entries that are results, and a type and a shape for each entry."""

    nodes: list[GraphNode]
    heads: list[int]
    dtypes: list[str]
    shapes: list[tuple[int, ...]]
    data: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Graph:
        """The graph of a JSON text. Raises `ModelError` with what is wrong in it."""
        try:
            data = json.loads(text)
            row_ptr, attrs = data["node_row_ptr"], data["attrs"]
            dtypes = [str(name) for name in attrs["dltype"][1]]
            shapes = [tuple(int(size) for size in shape) for shape in attrs["shape"][1]]
            nodes = [_read_node(node, number, row_ptr) for number, node in enumerate(data["nodes"])]
            heads = [_entry(head, row_ptr) for head in data["heads"]]
        except ModelError:
            raise
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ModelError(f"this is no graph of the graph executor: {type(error).__name__}: {error}") from None
        if not len(dtypes) == len(shapes) == row_ptr[-1]:
            raise ModelError(f"the graph has {row_ptr[-1]} entries, {len(dtypes)} types and {len(shapes)} shapes")
        for node in nodes:
            late = [entry for entry in node.inputs if entry >= min(node.outputs)]
            if late:
                raise ModelError(f"node {node.name!r} of the graph reads entry {late[0]}, which is not there before it")
        return cls(nodes, heads, dtypes, shapes, data)


def _read_node(node: Mapping[str, Any], number: int, row_ptr: Sequence[int]) -> GraphNode:
    outputs = range(row_ptr[number], row_ptr[number + 1])
    if node["op"] == "null":
        return GraphNode(node["name"], outputs=outputs)
    if node["op"] != "tvm_op":
        raise ModelError(f"node {node['name']!r} of the graph is a {node['op']!r}; there are 'null' and 'tvm_op'")
    attrs = node.get("attrs") or node["attr"]
    inputs = [_entry(entry, row_ptr) for entry in node["inputs"]]
    if int(attrs["num_inputs"]) != len(inputs) or int(attrs["num_outputs"]) != len(outputs):
        raise ModelError(f"node {node['name']!r} of the graph has another number of inputs or outputs than it says")
    return GraphNode(node["name"], attrs["func_name"], inputs, outputs, attrs["flatten_data"] == "1")


def _entry(entry: Sequence[int], row_ptr: Sequence[int]) -> int:
    """The number of an entry [node, index, version]."""
    node, index = int(entry[0]), int(entry[1])
    if not 0 <= node < len(row_ptr) - 1 or not 0 <= index < row_ptr[node + 1] - row_ptr[node]:
        raise ModelError(f"entry {list(entry)} of the graph is of no node")
    return row_ptr[node] + index


class GraphProgram:
    """A graph over the functions of `library` (`library[name]`, of arrays): what a `GraphModule` runs.

    `watch(node, outputs, call)` is asked to run each node, where given.
    """

    def __init__(self, text: str, library: Any, device: Any = None) -> None:
        self.graph = Graph.read(text)
        self.library, self.device = library, device
        self.watch: Callable[[GraphNode, Sequence[NDArray], Callable[[], None]], None] | None = None
        args = [node for node in self.graph.nodes if node.function is None]
        self.inputs = [self._spec(node.name, node.outputs[0]) for node in args]
        self.outputs = [self._spec(f"output{index}", entry) for index, entry in enumerate(self.graph.heads)]
        self._functions = {
            node.function: library[node.function] for node in self.graph.nodes if node.function not in (None, NOP, COPY)
        }

    def _spec(self, name: str, entry: int) -> TensorSpec:
        return TensorSpec(name, self.graph.shapes[entry], DType(self.graph.dtypes[entry]))

    def run(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The results for named inputs."""
        values: dict[int, NDArray] = {}
        for node in self.graph.nodes:
            if node.function is None:
                values[node.outputs[0]] = self._given(node, inputs)
                continue
            self._call(node, values)
        return [values[entry].numpy() for entry in self.graph.heads]

    def _given(self, node: GraphNode, inputs: Mapping[str, Any]) -> NDArray:
        entry = node.outputs[0]
        value = np.asarray(to_numpy(inputs[node.name]), order="C")
        shape = self.graph.shapes[entry]
        if value.shape != shape:
            raise InputError(
                f"input {node.name!r} has the wrong shape: {list(value.shape)} given, {list(shape)} expected"
            )
        return array(value, self.device)

    def _call(self, node: GraphNode, values: dict[int, NDArray]) -> None:
        """Run one node into memory of its own."""
        given = [values[entry] for entry in node.inputs]
        shapes, dtypes = self.graph.shapes, self.graph.dtypes
        if node.function in (NOP, COPY):
            made = [
                array(one.numpy().reshape(shapes[entry]), self.device)
                for one, entry in zip(given, node.outputs, strict=True)
            ]
        else:
            made = [empty(shapes[entry], dtypes[entry], self.device) for entry in node.outputs]
        values.update(zip(node.outputs, made, strict=True))

        def call() -> None:
            if node.function not in self._functions:
                return
            arguments = [*given, *made]
            if node.flatten:
                arguments = [self._flat(one) for one in arguments]
            self._functions[node.function](*arguments)
            for one, flat in zip(made, arguments[len(given) :], strict=True):
                if hasattr(flat, "there") and flat is not one:
                    one.copyfrom(flat.numpy().reshape(one.shape))

        if self.watch is None:
            call()
        else:
            self.watch(node, made, call)

    def _flat(self, value: NDArray) -> NDArray:
        """The same memory in one dimension; on another machine, where that cannot be had, a copy."""
        if len(value.shape) == 1:
            return value
        one = value.numpy().reshape(-1)
        return array(one, self.device) if hasattr(value, "there") else NDArray(one)
