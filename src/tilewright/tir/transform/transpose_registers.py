"""Transposes of small blocks through vector registers: whole vectors are loaded, shuffled and stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard

from tilewright.tir import op
from tilewright.tir.arith.linear import Linear
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Ramp, Shuffle, Var
from tilewright.tir.stmt import BufferStore, For, ForKind, IfThenElse, LetStmt, PrimFunc, Stmt, seq
from tilewright.tir.transform.folding import FoldingRewriter, substitute_var
from tilewright.tir.transform.statements import with_fields
from tilewright.tir.visitor import StmtRewriter, children, collect_vars

#: Rows and lanes of the blocks that are transposed; longer rows are cut into such pieces.
_SIZES = (16, 8, 4)


def transpose_registers(func: PrimFunc) -> PrimFunc:
    """`func` with loops that store gathered vectors turned into loads of whole vectors, shuffles and stores.

    A loop qualifies whose body stores one vector of 4, 8 or 16 lanes made from loads that are `n` elements apart, if
    the next iteration loads the neighbours of the elements that this one does. Each of the log2(lanes) rounds of
    shuffles interleaves the vectors of the first half with those of the second half. Only what every iteration loads
    is loaded for all of them: sides of an `if_then_else` become sides of an `if` around blocks of their own.

        for i in range(4):                                  v0 = a[ramp(0, 1, 4)]; … v3 = a[ramp(24, 1, 4)]
            c[ramp(i*4, 1, 4)] = a[ramp(i, 8, 4)]     =>    u0 = shuffle([v0, v2], [0, 4, 1, 5]); …
                                                            c[ramp(0, 1, 4)] = …; … c[ramp(12, 1, 4)] = …
    """
    return _Transposer()(func)


class _Transposer(StmtRewriter):
    def visit_For(self, loop: For) -> Stmt:
        """The loop, or what replaces it."""
        if isinstance(loop.body, BufferStore):
            return _transposed(loop, loop.body) or loop
        return self.rebuild(loop)


def _transposed(loop: For, store: BufferStore) -> Stmt | None:
    """The statements in place of `loop`, or None where it does not qualify."""
    if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED) or not isinstance(loop.extent, IntImm):
        return None
    extent = loop.extent.value
    if not _SIZES[-1] <= extent <= _SIZES[0] or store.value.dtype.lanes not in _SIZES:
        return None
    if _is_choice(store.value) and loop.var not in collect_vars(store.value.args[0]):
        return _by_sides(loop, store, store.value)
    gathered = [load for load in _always_loaded(store.value) if _is_column(load, loop.var, store)]
    if not gathered:
        return None
    parts: list[Stmt] = []
    first = 0
    for size in _SIZES:
        if extent - first >= size:
            parts.append(_block(loop, store, gathered, first, size))
            first += size
    parts += [
        substitute_var(store, loop.var, op.add(loop.min, op.const(i, loop.var.dtype))) for i in range(first, extent)
    ]
    return seq(*parts)


def _is_choice(value: Expr) -> TypeGuard[Call]:
    return isinstance(value, Call) and value.op == "if_then_else"


def _by_sides(loop: For, store: BufferStore, value: Call) -> Stmt | None:
    """A choice that is the same for all iterations, made before the loop; None where neither side is transposed."""
    condition, *sides = value.args
    stores = [with_fields(store, value=side) for side in sides]
    loops = [with_fields(loop, body=one) for one in stores]
    done = [_transposed(*pair) for pair in zip(loops, stores, strict=True)]
    if not any(done):
        return None
    then_case, else_case = (after or before for after, before in zip(done, loops, strict=True))
    return IfThenElse(condition, then_case, else_case)


def _always_loaded(value: Expr) -> list[BufferLoad]:
    """The loads of `value` that no `if_then_else` leaves out. Each node is looked at once, however often it is used."""
    found: list[BufferLoad] = []
    seen: set[Expr] = set()
    pending = [value]
    while pending:
        expr = pending.pop()
        if expr in seen:
            continue
        seen.add(expr)
        if isinstance(expr, BufferLoad):
            found.append(expr)
        elif _is_choice(expr):
            pending.append(expr.args[0])
        else:
            pending += reversed([child for child in children(expr) if isinstance(child, Expr)])
    return found


def _is_column(load: BufferLoad, row: Var, store: BufferStore) -> bool:
    """True if `load` gathers a column of a block whose rows run along `row`."""
    if load.buffer is store.buffer or len(load.indices) != 1:
        return False
    index = load.indices[0]
    if not isinstance(index, Ramp) or op.is_const(index.stride, 1) or row in collect_vars(index.stride):
        return False
    base = Linear.of(index.base)
    return base.terms.get(row) == 1 and not any(row in collect_vars(atom) for atom in base.terms if atom is not row)


def _block(loop: For, store: BufferStore, gathered: Sequence[BufferLoad], first: int, size: int) -> Stmt:
    """`size` iterations from `first` on, as one block."""
    lets: list[tuple[Var, Expr]] = []
    columns = [_columns(load, loop, first, size, lets) for load in gathered]
    stores = []
    for i in range(size):
        vectors = FoldingRewriter()
        vectors.memo.update({load: column[i] for load, column in zip(gathered, columns, strict=True)})
        replaced = with_fields(store, value=vectors(store.value))
        stores.append(substitute_var(replaced, loop.var, op.add(loop.min, op.const(first + i, loop.var.dtype))))
    body = seq(*stores)
    for var, value in reversed(lets):
        body = LetStmt(var, value, body)
    return body


def _columns(load: BufferLoad, loop: For, first: int, size: int, lets: list[tuple[Var, Expr]]) -> list[Expr]:
    """The vectors that `load` returns in `size` iterations; what they are made of is appended to `lets`."""
    (index,) = load.indices
    assert isinstance(index, Ramp)
    lanes = index.lanes

    def let(name: str, value: Expr) -> Expr:
        var = Var(name, value.dtype)
        lets.append((var, value))
        return var

    base = Linear.of(index.base).replaced(loop.var, Linear.of(loop.min).shifted(first))
    vectors: list[Expr] = []
    for lane in range(lanes):
        start = base.plus(Linear.of(index.stride), lane).to_expr(str(index.base.dtype))
        vectors.append(let("row", BufferLoad(load.buffer, [Ramp(start, op.const(1, start.dtype), size)])))
    half = lanes // 2
    while half:
        vectors = _interleaved(vectors, size, let)
        half //= 2
    return _in_lanes(vectors, size, lanes, let)


def _interleaved(vectors: list[Expr], size: int, let: Callable[[str, Expr], Expr]) -> list[Expr]:
    """One round: vector k of the first half takes turns, lane by lane, with vector k of the second half."""
    half = len(vectors) // 2
    picks = [lane + which * size for lane in range(size) for which in range(2)]
    result = []
    for a, b in zip(vectors[:half], vectors[half:], strict=True):
        result.append(let("low", Shuffle((a, b), tuple(picks[:size]))))
        result.append(let("high", Shuffle((a, b), tuple(picks[size:]))))
    return result


def _in_lanes(vectors: list[Expr], size: int, lanes: int, let: Callable[[str, Expr], Expr]) -> list[Expr]:
    """The elements of `vectors` of `size` lanes, in order, as vectors of `lanes`."""
    while size < lanes:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors, size = [let("both", Shuffle(pair, tuple(range(2 * size)))) for pair in pairs], 2 * size
    if size == lanes:
        return vectors
    cuts = range(0, size, lanes)
    return [let("part", Shuffle((vector,), tuple(range(cut, cut + lanes)))) for vector in vectors for cut in cuts]
