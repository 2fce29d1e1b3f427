"""The loops of a function as a tree with what each of its statements does to memory: the material of features.

    nest = read_nest(func)
    for statement in nest.statements: statement.loops, statement.touched, statement.operations

It is read off the loop IR as `schedule_to_tir` leaves it, before loops are split, unrolled or made vectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.autotvm.feature.corners import Corners, Loop, Touched, extent_of, touched
from tilewright.tir import expr as nodes
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr
from tilewright.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
)
from tilewright.tir.visitor import children

#: What operations are counted as.
OPERATIONS = ("add", "multiply", "other", "function")

_KIND_OF_OPERATION = {
    nodes.Add: 0, nodes.Sub: 0, nodes.Mul: 1, nodes.Div: 2, nodes.Min: 2, nodes.Max: 2, nodes.Select: 2, nodes.Cast: 2,
}  # fmt: skip

#: Calls that are no function of numbers.
_NO_FUNCTION = frozenset({"if_then_else", "likely", "address_of"})


@dataclass
class Statement:
    """A store: the loops around it, the outermost first, what it touches by buffer, and its operations by kind.

    `attributes` are those of the statements around it (`prefetch` and others).
    """

    loops: tuple[Loop, ...]
    touched: list[Touched]
    operations: tuple[float, ...]
    attributes: dict[str, float]

    @property
    def written(self) -> Touched:
        """The accesses to the buffer that it writes."""
        return self.touched[0]

    @property
    def iterations(self) -> float:
        """The number of its executions."""
        return math.prod([float(loop.extent) for loop in self.loops])

    @property
    def stays(self) -> list[bool]:
        """For each loop whether it reduces."""
        return [not moves and loop.extent > 1 for moves, loop in zip(self.written.moves, self.loops)]

    @property
    def work(self) -> float:
        """Operations in all, and one for each store."""
        return self.iterations * (1.0 + sum(self.operations))


@dataclass(eq=False)
class Node:
    """A loop and what is in it; the root has no loop. `footprint` are the bytes that one run of the loop touches."""

    loop: Loop | None
    parts: list[Node | Statement] = field(default_factory=list)
    footprint: float = 0.0

    def walk(self) -> Iterator[Node | Statement]:
        """All below it, parents first."""
        for part in self.parts:
            yield part
            if isinstance(part, Node):
                yield from part.walk()


@dataclass
class Nest:
    """A function: its loops as a tree, its statements in order, the nodes around each, bytes of allocations."""

    root: Node
    statements: list[Statement]
    around: list[list[Node]]
    allocated: float


def read_nest(func: PrimFunc, line: int = 64) -> Nest:
    """The nest of a function; `line` are the bytes of a line of its processor's caches."""
    reader = _Reader(line)
    reader.read(func.body)
    nest = Nest(reader.root, reader.statements, reader.around, reader.allocated)
    _set_footprints(nest)
    return nest


class _Reader:
    """A walk over statements that knows the loops and attributes around it."""

    def __init__(self, line: int) -> None:
        self.line, self.root, self.allocated = line, Node(None), 0.0
        self.statements: list[Statement] = []
        self.around: list[list[Node]] = []
        self._nodes = [self.root]
        self._attributes: dict[str, float] = {}
        self._lets: list[LetStmt] = []

    def read(self, stmt: Stmt) -> None:
        if isinstance(stmt, SeqStmt):
            for part in stmt.stmts:
                self.read(part)
        elif isinstance(stmt, For):
            self._loop(stmt)
        elif isinstance(stmt, BufferStore):
            self._store(stmt)
        elif isinstance(stmt, AttrStmt):
            self._attribute(stmt)
        elif isinstance(stmt, IfThenElse):
            self.read(stmt.then_case)
            if stmt.else_case is not None:
                self.read(stmt.else_case)
        elif isinstance(stmt, LetStmt):
            self._lets.append(stmt)
            self.read(stmt.body)
            self._lets.pop()
        elif not isinstance(stmt, Evaluate):
            if isinstance(stmt, Allocate):
                self.allocated += math.prod(map(extent_of, stmt.buffer.shape)) * stmt.buffer.dtype.itemsize
            self.read(stmt.body)  # type: ignore[attr-defined]

    def _loop(self, stmt: For) -> None:
        extent = extent_of(stmt.extent)
        node = Node(Loop(stmt.var, extent, stmt.kind))
        self._nodes[-1].parts.append(node)
        self._nodes.append(node)
        self.read(stmt.body)
        self._nodes.pop()

    def _attribute(self, stmt: AttrStmt) -> None:
        before = self._attributes
        value = float(stmt.value.value) if isinstance(stmt.value, nodes.IntImm | nodes.FloatImm) else 1.0
        self._attributes = {**before, stmt.key: value}
        self.read(stmt.body)
        self._attributes = before

    def _store(self, stmt: BufferStore) -> None:
        loops = tuple(node.loop for node in self._nodes if node.loop is not None)
        corners = Corners(loops)
        counts = [0.0] * len(OPERATIONS)
        accesses: dict[Buffer, list[tuple[Expr, ...]]] = {stmt.buffer: [stmt.indices]}
        read: set[Buffer] = set()
        for let in self._lets:
            corners.bind(let.var, let.value)
        for load in _loads_and_operations([*(let.value for let in self._lets), stmt.value], counts):
            read.add(load.buffer)
            known = accesses.setdefault(load.buffer, [])
            if load.indices not in known:
                known.append(load.indices)
        found = [
            touched(corners, loops, buffer, indices, buffer in read, buffer is stmt.buffer, self.line)
            for buffer, indices in accesses.items()
        ]
        statement = Statement(loops, found, tuple(counts), dict(self._attributes))
        self._nodes[-1].parts.append(statement)
        self.statements.append(statement)
        self.around.append(list(self._nodes))


def _loads_and_operations(values: list[Expr], counts: list[float]) -> list[nodes.BufferLoad]:
    """The different loads in expressions; operations on numbers are added to `counts`, those on indices are not."""
    seen: set[Expr] = set()
    found: list[nodes.BufferLoad] = []
    stack = list(values)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, nodes.BufferLoad):
            found.append(node)
            continue
        kind = _KIND_OF_OPERATION.get(type(node))
        if kind is not None:
            counts[kind] += 1
        elif isinstance(node, nodes.Call) and node.op not in _NO_FUNCTION:
            counts[3] += 1
        conditional = isinstance(node, nodes.Select) or (isinstance(node, nodes.Call) and node.op == "if_then_else")
        stack.extend(children(node)[1:] if conditional else children(node))
    return found


def _set_footprints(nest: Nest) -> None:
    """The bytes that each loop's run touches: of each buffer what the statement touches that touches most of it."""
    most: dict[Node, dict[Buffer, float]] = {}
    for statement, around in zip(nest.statements, nest.around):
        for depth, node in enumerate(around):
            position = max(0, depth - 1) if node.loop is not None else 0
            seen = most.setdefault(node, {})
            for one in statement.touched:
                seen[one.buffer] = max(seen.get(one.buffer, 0.0), float(one.nbytes[position]))
    for node, buffers in most.items():
        node.footprint = sum(buffers.values())


def bodies(around: list[Node], statement: Statement) -> NDArray[np.float64]:
    """By depth, from all loops running to none: the bytes that everything within touches, other statements included."""
    inner = [node.footprint for node in around if node.loop is not None]
    own = sum(float(one.nbytes[-1]) for one in statement.touched)
    return np.array([*inner, own])


def is_spread(loop: Loop) -> bool:
    """True for loops that become straight code or lanes."""
    return loop.kind in (ForKind.UNROLLED, ForKind.VECTORIZED)
