"""Graphs of kernels as programs of the classic virtual machine: memory, calls and the result, in a row.

    load_const $1 …; alloc_storage $2 $1; alloc_tensor $4 $2 $3; invoke_packed (in: $0, $5, out: $4); ret $4

Programs with control flow are no graph, and have no such form here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.compat.relay import bytecode as b
from tilewright.compat.relay.bytecode import Bytecode, BytecodeFunction, Instruction
from tilewright.compat.runtime.graph_json import COPY, NOP, Graph, GraphNode
from tilewright.errors import UnsupportedError
from tilewright.support.dtype import DType

_ALIGNMENT = 64


def bytecode_of(text: str, params: Mapping[str, Any], version: str, is_tuple: bool) -> Bytecode:
    """The program `main` of a graph as JSON text, its parameters as constants. `is_tuple`: of its results."""
    return _Writer(Graph.read(text), params, version).program(is_tuple)


class _Writer:
    """One program while it is written."""

    def __init__(self, graph: Graph, params: Mapping[str, Any], version: str) -> None:
        self.graph, self.params, self.version = graph, params, version
        self.code: list[Instruction] = []
        self.constants: list[np.ndarray[Any, Any]] = []
        self.loaded: dict[tuple[str, bytes], int] = {}
        self.packed: list[str] = []
        self.registers = 0
        self.positions: dict[int, int] = {}

    def program(self, is_tuple: bool) -> Bytecode:
        """All of it."""
        inputs = [node for node in self.graph.nodes if node.function is None and node.name not in self.params]
        for node in inputs:
            self.positions[node.outputs[0]] = self._register()
        for node in self.graph.nodes:
            if node.function is None and node.name in self.params:
                self.positions[node.outputs[0]] = self._constant(np.asarray(self.params[node.name].numpy()))
            elif node.function is not None:
                self._call(node)
        results = [self.positions[entry] for entry in self.graph.heads]
        if is_tuple:
            made = self._register()
            self._add(b.ALLOC_ADT, 0, len(results), made, *results)
            results = [made]
        self._add(b.RET, results[0])
        main = BytecodeFunction("main", [node.name for node in inputs], self.registers, self.code)
        return Bytecode(self.version, ["main"], self.constants, self.packed, [main])

    def _add(self, operation: int, *fields: int) -> None:
        self.code.append(Instruction(operation, fields))

    def _register(self) -> int:
        self.registers += 1
        return self.registers - 1

    def _constant(self, value: np.ndarray[Any, Any]) -> int:
        """The register of a constant, loaded once; small ones that are alike are one."""
        key = (f"{value.dtype}{value.shape}", value.tobytes() if value.size < 16 else str(id(value)).encode())
        if key not in self.loaded:
            self.constants.append(value)
            self.loaded[key] = self._register()
            self._add(b.LOAD_CONST, len(self.constants) - 1, self.loaded[key])
        return self.loaded[key]

    def _call(self, node: GraphNode) -> None:
        given = [self.positions[entry] for entry in node.inputs]
        if node.function == COPY:
            raise UnsupportedError("a graph that copies between devices is not written as a program")
        if node.function == NOP:
            for one, entry in zip(given, node.outputs, strict=True):
                shape = self._constant(np.array(self.graph.shapes[entry], np.int64))
                self.positions[entry] = self._register()
                self._add(b.RESHAPE_TENSOR, one, shape, self.positions[entry])
            return
        made = [self._tensor(entry) for entry in node.outputs]
        assert node.function is not None
        if node.function not in self.packed:
            self.packed.append(node.function)
        number = self.packed.index(node.function)
        self._add(b.INVOKE_PACKED, number, len(given) + len(made), len(made), *given, *made)

    def _tensor(self, entry: int) -> int:
        """The register of fresh memory for an entry."""
        shape: Sequence[int] = self.graph.shapes[entry]
        dtype = DType(self.graph.dtypes[entry])
        size = self._constant(np.array(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize, np.int64))
        start = self._constant(np.array(0, np.int64))
        kind = (dtype.type_code, 1 if dtype.is_bool else dtype.bits, 1)
        storage, self.positions[entry] = self._register(), self._register()
        device = 1 if self.version < "0.9" else 0
        self._add(b.ALLOC_STORAGE, size, _ALIGNMENT, *kind, device, storage)
        self._add(b.ALLOC_TENSOR, storage, start, *kind, len(shape), self.positions[entry], *shape)
        return self.positions[entry]
