"""Stores one behind the other of the same long arithmetic of vectors, as a loop: a C compiler reads it once.

y[0:16] = s0 * (1 / (1 + exp(-s0)))              to = [&y[0], &y[16], …]; x = [s0, s1, …]
y[16:32] = s1 * (1 / (1 + exp(-s1)))     =>      for i in range(…):
…                                                    *to[i] = x[i] * (1 / (1 + exp(-x[i])))
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.expressions import register_name
from tilewright.support.dtype import DType
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Broadcast, BufferLoad, Expr, FloatImm, IntImm, Let, Ramp, Var
from tilewright.tir.stmt import BufferStore, Stmt
from tilewright.tir.visitor import Rewriter, collect

#: Nodes from which on a value is long: in a loop it takes about four instructions more.
_LONG = 24
#: The fewest stores of a loop.
_LEAST = 4


@dataclass(frozen=True)
class VectorRun:
    """Stores of a value in terms of variables, and what each of these is for each store."""

    stores: Sequence[BufferStore]
    value: Expr
    loads: dict[Var, list[BufferLoad]]


def vector_runs(b: SourceBuilder, stmts: Sequence[Stmt]) -> Iterator[Stmt | VectorRun]:
    """The statements in order, those that are better a loop together."""
    abstract = [_abstracted(b, stmt) for stmt in stmts]
    for key, group in itertools.groupby(range(len(stmts)), lambda i: abstract[i][0]):
        found = [*group]
        if key is None or len(found) < _LEAST or len(collect(key[0], Expr)) < _LONG:
            yield from (stmts[i] for i in found)
            continue
        loads = {var: [abstract[i][1][var] for i in found] for var in abstract[found[0]][1]}
        yield VectorRun([stmts[i] for i in found], key[0], loads)  # type: ignore[misc]


def write_run(b: SourceBuilder, run: VectorRun) -> None:
    """Write the loop at the current position."""
    count, (dtype, lanes) = len(run.stores), (run.value.dtype, run.value.dtype.lanes)
    targets = [(store.buffer, store.indices[0]) for store in run.stores]
    indices = [index for _, index in targets] + [load.indices[0] for held in run.loads.values() for load in held]
    element, vector = b.dialect.memory_type(dtype.element), b.dialect.type_name(dtype)
    with b.block("{"):
        b.statement(*indices)
        to, i = b.name(Var("to")), b.name(Var("i"))
        texts = {to: "to"}
        b.line(f"{element}* const {to}[{count}] = {{{', '.join(_address(b, *target) for target in targets)}}};")
        for var, loads in run.loads.items():
            own = b.name(var)
            if loads[0].buffer in b.registers:
                held = ", ".join(register_name(b, load.buffer, load.indices[0]) for load in loads)  # type: ignore[arg-type]
                b.line(f"const {vector} {own}[{count}] = {{{held}}};")
                texts[own] = f"{own}[{i}]"
                continue
            held = ", ".join(_address(b, load.buffer, load.indices[0]) for load in loads)
            b.line(f"const {element}* const {own}[{count}] = {{{held}}};")
            texts[own] = b.dialect.vector_load.format(lanes=lanes, name=f"{own}[{i}]", index=0)
        head = b.dialect.loop.format(type=b.dialect.type_name(DType("int32")), name=i, first=0, end=count)
        b.line(b.dialect.joined_stores)
        with b.block(head):
            b.statement(run.value)
            for var in run.loads:
                b.keep(var, texts[b.name(var)])
            b.line(b.dialect.vector_store.format(lanes=lanes, name=f"{to}[{i}]", index=0, value=b.value(run.value)))


def _address(b: SourceBuilder, buffer: Buffer, index: Expr) -> str:
    assert isinstance(index, Ramp)
    return f"{b.name(buffer)} + {b.value(index.base)}"


def _abstracted(b: SourceBuilder, stmt: Stmt) -> tuple[tuple[Expr, tuple[bool, ...]] | None, dict[Var, BufferLoad]]:
    """The part that stores of one loop have in common, None for no such store; and the vectors that this one loads."""
    if not isinstance(stmt, BufferStore) or stmt.value.dtype.lanes == 1 or stmt.buffer in b.registers:
        return None, {}
    abstract = _Abstract()
    value = abstract(stmt.value)
    loads = {var: load for load, var in abstract.loads.items()}
    if abstract.varies or not loads or any(load.dtype != stmt.value.dtype for load in loads.values()):
        return None, {}
    return (value, tuple(load.buffer in b.registers for load in loads.values())), loads


class _Abstract(Rewriter):
    """A value with variables for the vectors that it loads; `varies` if it has others, or unknown numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: dict[BufferLoad, Var] = {}
        self.varies = False
        self.bound: set[Var] = set()

    def visit_Let(self, let: Let) -> Expr:
        """The same."""
        self.bound.add(let.var)
        return self.rebuild(let)

    def visit_Var(self, x: Var) -> Expr:
        """The same, which only a `Let` of the value may bind."""
        self.varies |= x not in self.bound
        return x

    def visit_Broadcast(self, x: Broadcast) -> Expr:
        """The same."""
        self.varies |= not isinstance(x.value, IntImm | FloatImm)
        return x

    def visit_BufferLoad(self, load: BufferLoad) -> Expr:
        """A variable."""
        return self.loads.setdefault(load, _variable(len(self.loads), load.dtype))


@functools.cache
def _variable(number: int, dtype: DType) -> Var:
    """The variable of this number, one and the same in all values."""
    return Var(f"x{number}", dtype)
