"""Rows of padded images of bytes, or floats, as calls of C functions that copy and fill whole words.

Before: for x in range(7):
            for c in range(64):
                pad[x * 64 + c] = if_then_else(y >= 1 and x >= 1 and x < 6, image[y * 320 + x * 64 + c - 384], -128)
After:  if y >= 1:
            tilewright_row(&pad[0], &image[y * 320 - 320], 64, 320, 64, -128)           (codegen/source/rows.py)
        else:
            tilewright_fill(&pad[0], 448, -128)
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.support.dtype import DType
from tilewright.tir import call_extern, op
from tilewright.tir.arith.linear import Linear
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import GE, LT, And, BufferLoad, Call, Expr, FloatImm, IntImm, StringImm, Var
from tilewright.tir.stmt import BufferStore, Evaluate, For, ForKind, IfThenElse, PrimFunc, Stmt
from tilewright.tir.transform.folding import FoldingRewriter
from tilewright.tir.visitor import StmtRewriter, uses_var


def pad_rows(func: PrimFunc) -> PrimFunc:
    """Call the functions; see the module's docstring."""
    return func.with_body(_Rows()(func.body))


@dataclass(frozen=True)
class _Row:
    """`size` elements from `target` on: from `first` to `last` those of an image if `condition` holds, else `value`."""

    size: int
    first: int
    last: int
    target: BufferLoad
    source: BufferLoad
    condition: list[Expr]
    value: Expr


class _Rows(StmtRewriter):
    def visit_For(self, node: For) -> Stmt:
        """A loop over a row, or what is left of it."""
        row = _row(node)
        if row is None:
            return self.rebuild(node)
        count = row.last - row.first
        target = Call(DType("handle"), "address_of", (row.target,))
        source = Call(DType("handle"), "address_of", (row.source, StringImm("r")))
        floats = "_floats" if str(row.target.buffer.dtype) == "float32" else ""
        sizes = row.first, count, row.size - row.last
        copied = call_extern("int32", f"tilewright_row{floats}", target, source, *sizes, row.value)
        if not row.condition:
            return Evaluate(copied)
        filled = call_extern("int32", f"tilewright_fill{floats}", target, row.size, row.value)
        return IfThenElse(op.all(*row.condition), Evaluate(copied), Evaluate(filled))


def _row(loop: For) -> _Row | None:
    """The row that a loop over columns, and one over channels within, writes; None for any other."""
    loops = [loop]
    if isinstance(loop.body, For):
        loops.append(loop.body)
    store = loops[-1].body
    fixed = all(isinstance(o.extent, IntImm) and op.is_const(o.min, 0) and o.kind is ForKind.SERIAL for o in loops)
    if not fixed or not isinstance(store, BufferStore) or not _has_rows(store.buffer) or len(store.indices) != 1:
        return None
    choice = store.value
    if not isinstance(choice, Call) or choice.op != "if_then_else" or not isinstance(choice.args[2], IntImm | FloatImm):
        return None
    condition, load, value = choice.args
    if not isinstance(load, BufferLoad) or load.buffer.dtype is not store.buffer.dtype or len(load.indices) != 1:
        return None
    columns, channels = loops[0].extent.value, loops[1].extent.value if len(loops) > 1 else 1  # type: ignore[attr-defined]
    names = [one.var for one in loops]
    if not all(_runs_on(Linear.of(index), names, channels) for index in (store.indices[0], load.indices[0])):
        return None
    around, first, last = [], 0, columns
    for part in _conjuncts(condition):
        if not uses_var(part, lambda var: var in names):
            around.append(part)
        elif isinstance(part, GE) and part.a is names[0] and isinstance(part.b, IntImm):
            first = max(first, part.b.value)
        elif isinstance(part, LT) and part.a is names[0] and isinstance(part.b, IntImm):
            last = min(last, part.b.value)
        else:
            return None
    if first >= last:
        return None
    target, source = _at(store.buffer, store.indices[0], names, 0), _at(load.buffer, load.indices[0], names, first)
    return _Row(columns * channels, first * channels, last * channels, target, source, around, value)


def _has_rows(buffer: Buffer) -> bool:
    return str(buffer.dtype) in ("int8", "float32")


def _runs_on(index: Linear, names: list[Var], channels: int) -> bool:
    """True if each step of the loops moves the index to the next element."""
    steps = [channels, 1] if len(names) > 1 else [1]
    inside = all(not uses_var(atom, lambda var: var in names) for atom in index.terms if atom not in names)
    return inside and [index.terms.get(name, 0) for name in names] == steps


def _conjuncts(condition: Expr) -> list[Expr]:
    if isinstance(condition, And):
        return [*_conjuncts(condition.a), *_conjuncts(condition.b)]
    if isinstance(condition, Call) and condition.op == "likely":
        return _conjuncts(condition.args[0])
    return [condition]


def _at(buffer: Buffer, index: Expr, names: list[Var], column: int) -> BufferLoad:
    """The element at a column's first channel."""
    rewriter = FoldingRewriter()
    rewriter.memo.update({name: op.const(0, name.dtype) for name in names})
    rewriter.memo[names[0]] = op.const(column, names[0].dtype)
    return BufferLoad(buffer, (rewriter(index),))
