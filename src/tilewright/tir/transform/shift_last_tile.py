"""Let the last tile of a symbolic extent overlap the one before, so that every tile is whole and needs no guard."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, FloorDiv, FloorMod, IntImm, Mul, Var
from tilewright.tir.stmt import Allocate, BufferStore, For, ForKind, IfThenElse, LetStmt, PrimFunc, Stmt
from tilewright.tir.transform.affine import Guard, read_guard, split_conjunction
from tilewright.tir.transform.folding import FoldingRewriter
from tilewright.tir.transform.roll_loops import roll_loops
from tilewright.tir.transform.specialize_borders import has_borders, specialize_borders
from tilewright.tir.transform.statements import walk, with_fields
from tilewright.tir.visitor import StmtRewriter, collect_vars, post_order, substitute

#: Tiled axes of one loop nest that are treated: each doubles the code.
MOST_AXES = 2

#: Of a tile, the positions that are few: as many tiles of one of them take no longer than the whole.
FEW = 4


def shift_last_tile(func: PrimFunc) -> PrimFunc:
    """`func` with the guards of tiles of symbolic extents gone wherever there is room for one whole tile.

        for io in range((n + 7) // 8):              for io in range((n + 7) // 8):
            for ii in vectorized(8):                    if n >= 8:
                if likely(io*8 + ii < n):       =>          start = min(io*8, n - 8)
                    c[io*8 + ii] = a[io*8 + ii]             for ii in vectorized(8):
                                                                c[start + ii] = a[start + ii]
                                                        else: (as before)

    Where there is no room for one, positions behind the end stand for the last one; a few positions are computed one
    by one instead. In tiles of vectors, loops of single elements do the work (see `roll_loops`).

    The last tile computes some elements a second time, to the same values. So a tile must depend on its number through
    its first element only, and may not read what it writes. Tiles at the borders of an image get code of their own (see
    `specialize_borders`); one that is at both borders is rolled. `loop_partition` does better where the extent is a
    number.
    """
    return _Shifter()(func)


@dataclass(frozen=True)
class _Tiling:
    """Tiles of `factor` elements, number `atom` of them, of an axis of `extent` elements."""

    atom: Expr
    factor: int
    extent: Expr


class _Shifter(StmtRewriter):
    def __init__(self) -> None:
        super().__init__()
        self.analyzer = Analyzer()
        self.axes = 0

    def visit_For(self, loop: For) -> Stmt:
        """The loop; if it is over tiles of a symbolic extent, with a body for whole ones."""
        if loop.kind in (ForKind.SERIAL, ForKind.PARALLEL) and self.axes < MOST_AXES:
            tilings = _tilings(loop, self.analyzer)
            if tilings:
                body = self._versions(loop.body, tilings)
                if body is not None:
                    return with_fields(loop, body=body)
        return self.rebuild(loop)

    def _versions(self, body: Stmt, tilings: list[_Tiling]) -> Stmt | None:
        """`body` for whole tiles if there is room for one, else as it is; None where no tiling can be shifted."""
        tiling, *others = tilings
        result = self._version(body, tiling, others)
        return result if result is not None or not others else self._versions(body, others)

    def _version(self, body: Stmt, tiling: _Tiling, others: list[_Tiling]) -> Stmt | None:
        if not _may_repeat(body, tiling):
            return None
        start = Var("start", tiling.atom.dtype)
        rewriter = _WholeTile(tiling, start, _extents(body), self.analyzer)
        whole = rewriter(body)
        if rewriter.failed:
            return None
        self.axes += 1
        last = self.analyzer.simplify(tiling.extent - tiling.factor)
        first = op.minimum(tiling.atom * tiling.factor, last)
        inner = self._versions(whole, others) if others and self.axes < MOST_AXES else None
        shifted = inner if inner is not None else self(whole)
        self.axes -= 1
        if has_borders(shifted, start):
            return LetStmt(start, first, specialize_borders(shifted, start, last, roll_loops(body)))
        # Of loops over the positions that there are, within the tile, no others can be read.
        counted = any(isinstance(s, For) and tiling.atom in _parts(s.extent) for s in walk(body))
        clamped = body if counted else _Clamper(tiling, _extents(body), self.analyzer).clamped(body)
        if clamped is body:
            small = roll_loops(body)
        else:
            position = Var("position", tiling.atom.dtype)
            single = _Clamper(tiling, _extents(body), self.analyzer, position).clamped(body)
            one_by_one = For(position, op.const(0, position.dtype), tiling.extent, ForKind.SERIAL, single)
            small = IfThenElse(tiling.extent * FEW <= tiling.factor, one_by_one, clamped)
        return IfThenElse(tiling.extent >= tiling.factor, LetStmt(start, first, shifted), small)


def _tilings(loop: For, analyzer: Analyzer) -> list[_Tiling]:
    """The tilings by symbolic extents whose tile numbers are made of the variable of `loop`."""
    extents = _extents(loop.body)
    found: dict[_Tiling, None] = {}
    for guard in _guards(loop.body):
        tiling = _tiling(guard, extents, analyzer)
        if tiling is not None and loop.var in collect_vars(tiling.atom):
            found[tiling] = None
    return list(found)


def _extents(body: Stmt) -> dict[Var, int]:
    """The loop variables in `body` that count from 0 to a number."""
    loops = [s for s in walk(body) if isinstance(s, For) and isinstance(s.extent, IntImm) and op.is_const(s.min, 0)]
    return {loop.var: loop.extent.value for loop in loops}  # type: ignore[attr-defined]


def _guards(body: Stmt) -> list[Guard]:
    """The `likely` conditions of statements within `body`."""
    found = []
    for stmt in walk(body):
        if isinstance(stmt, IfThenElse):
            for part in split_conjunction(stmt.condition):
                if isinstance(part, Call) and part.op == "likely":
                    guard = read_guard(part.args[0])
                    found += [guard] if guard is not None else []
    return found


def _tiling(guard: Guard, extents: dict[Var, int], analyzer: Analyzer) -> _Tiling | None:
    """The tiling that `guard`, atom * factor + inner < extent, is the tail of; `inner` runs from 0 to factor - 1."""
    inner = [(atom, k) for atom, k in guard.terms if isinstance(atom, Var) and atom in extents]
    outer = [(atom, k) for atom, k in guard.terms if atom not in extents and k > 0]
    size = [(atom, k) for atom, k in guard.terms if atom not in extents and k < 0]
    if len(outer) != 1 or not size or any(k < 0 for _, k in inner):
        return None
    atom, factor = outer[0]
    if not isinstance(atom, Var | FloorDiv | FloorMod):
        return None
    if sum(k * (extents[var] - 1) for var, k in inner) != factor - 1:
        return None
    extent: Expr = op.const(1 - guard.constant, atom.dtype)
    for term, k in size:
        extent = extent + term * -k
    return _Tiling(atom, factor, analyzer.simplify(extent))


def _may_repeat(body: Stmt, tiling: _Tiling) -> bool:
    """True if running `body` twice for some elements does no harm: what it stores to it does not read."""
    own = {s.buffer for s in walk(body) if isinstance(s, Allocate)}
    stored: set[Buffer] = set()
    loaded: set[Buffer] = set()

    def visit(x: object) -> None:
        if isinstance(x, BufferLoad):
            loaded.add(x.buffer)

    for stmt in walk(body):
        if isinstance(stmt, BufferStore) and stmt.buffer not in own:
            stored.add(stmt.buffer)
            if not any(tiling.atom in _parts(index) for index in stmt.indices):
                return False
        for field in stmt.fields():
            for part in field if isinstance(field, tuple) else (field,):
                if isinstance(part, Expr):
                    post_order(part, visit)
    return not stored & loaded


def _parts(x: Expr) -> set[Expr]:
    found: set[Expr] = set()
    post_order(x, lambda part: found.add(part) if isinstance(part, Expr) else None)
    return found


class _WholeTile(FoldingRewriter):
    """Puts `start` for atom * factor and drops the guards made true by it. `failed`: the atom is left somewhere."""

    def __init__(self, tiling: _Tiling, start: Var, extents: dict[Var, int], analyzer: Analyzer) -> None:
        super().__init__()
        self.tiling = tiling
        self.extents = extents
        self.analyzer = analyzer
        self.start = start
        self.failed = False

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        """The condition that is left to be tested."""
        kept: Expr = op.const(True)
        for part in split_conjunction(stmt.condition):
            if not self._is_tail(part):
                kept = op.logical_and(kept, self(part))
        then_case: Stmt = self(stmt.then_case)
        if op.is_const(kept, 1):
            return then_case
        return IfThenElse(kept, then_case, None if stmt.else_case is None else self(stmt.else_case))

    def _is_tail(self, condition: Expr) -> bool:
        """True for a guard atom * factor + inner < extent; other guards of the tiling would not be found."""
        if not isinstance(condition, Call) or condition.op != "likely":
            return False
        guard = read_guard(condition.args[0])
        return guard is not None and _tiling(guard, self.extents, self.analyzer) == self.tiling

    def visit_Var(self, x: Var | FloorDiv | FloorMod) -> Expr:
        """The atom replaced; it should not remain."""
        if x is self.tiling.atom:
            self.failed = True
            return x
        return self.rebuild(x)

    visit_FloorDiv = visit_FloorMod = visit_Var

    def visit_Mul(self, x: Mul) -> Expr:
        """`start` for the atom times the factor."""
        if x.a is self.tiling.atom and isinstance(x.b, IntImm):
            self.failed |= x.b.value % self.tiling.factor != 0
            return self.start * (x.b.value // self.tiling.factor)
        return self.rebuild(x)


class _Clamper(FoldingRewriter):
    """The body of the only tile of an extent that is shorter than a tile: positions behind its end are the last one.

    A guarded position would take a test in each innermost step. Here it computes the last element again instead. With
    a `position` given the tile is that one, and its loops over positions are gone.
    """

    def __init__(
        self, tiling: _Tiling, extents: dict[Var, int], analyzer: Analyzer, position: Var | None = None
    ) -> None:
        super().__init__()
        self.position = position
        self.positions: dict[Var, Expr] = {}  # the loops over them, of which the tile's own buffers see the first turn
        self.tiling = tiling
        self.extents = extents
        self.analyzer = analyzer
        self.own: set[Buffer] = set()

    def clamped(self, body: Stmt) -> Stmt:
        """`body` for the one tile; itself where its positions are not one unvectorized loop each."""
        vectors = {s.var for s in walk(body) if isinstance(s, For) and s.kind is ForKind.VECTORIZED}
        last = self.tiling.extent - 1
        for guard in _guards(body):
            if _tiling(guard, self.extents, self.analyzer) == self.tiling:
                inner = [atom for atom, _ in guard.terms if atom in self.extents]
                if len(inner) != 1 or inner[0] in vectors:
                    return body
                self.memo[inner[0]] = op.minimum(inner[0], last)
        self.memo[self.tiling.atom] = op.const(0, self.tiling.atom.dtype)
        self.own = {s.buffer for s in walk(body) if isinstance(s, Allocate)}
        if self.position is not None:
            self.positions = {
                x: op.const(0, x.dtype) for x in self.memo if isinstance(x, Var) and x is not self.tiling.atom
            }
            self.memo.update(dict.fromkeys(self.positions, self.position))
        made: Stmt = self(body)
        return made

    def visit_For(self, loop: For) -> Stmt:
        """The loop; the body of one over positions where there is one of them."""
        made: Stmt = self(loop.body) if loop.var in self.positions else self.rebuild(loop)
        return made

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        """The condition that is left to be tested."""
        kept: Expr = op.const(True)
        for part in split_conjunction(stmt.condition):
            guard = read_guard(part.args[0]) if isinstance(part, Call) and part.op == "likely" else None
            if guard is None or _tiling(guard, self.extents, self.analyzer) != self.tiling:
                kept = op.logical_and(kept, self(part))
        inside: Stmt = self(stmt.then_case)
        otherwise = None if stmt.else_case is None else self(stmt.else_case)
        return inside if op.is_const(kept, 1) else IfThenElse(kept, inside, otherwise)

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        """A store; what is within the tile's own buffers stays where it is."""
        if stmt.buffer not in self.own:
            return self.rebuild(stmt)
        return with_fields(stmt, value=self(stmt.value), indices=self._own(stmt.indices))

    def visit_BufferLoad(self, x: BufferLoad) -> Expr:
        """A load, likewise."""
        return BufferLoad(x.buffer, self._own(x.indices)) if x.buffer in self.own else self.rebuild(x)

    def _own(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The indices of an element in one of the tile's own buffers."""
        return tuple([substitute(index, self.positions) for index in indices]) if self.positions else indices
