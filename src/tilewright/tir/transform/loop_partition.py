"""Split loops where the guards in them become certain, so that the main part runs without guards."""

from __future__ import annotations

import itertools

from tilewright.support.recursion import nested
from tilewright.tir import op
from tilewright.tir.expr import Call, Expr, FloorDiv, FloorMod, IntImm, Var
from tilewright.tir.node import Node
from tilewright.tir.stmt import BufferStore, For, ForKind, IfThenElse, LetStmt, PrimFunc, Stmt, seq
from tilewright.tir.transform.affine import Guard, Interval, read_guard, split_conjunction
from tilewright.tir.transform.folding import FoldingRewriter, substitute_var
from tilewright.tir.transform.hoist_if import hoist_if
from tilewright.tir.transform.statements import NO_OP, child_stmts, is_no_op, walk, with_fields
from tilewright.tir.visitor import StmtRewriter, collect_vars, post_order

MOST_SPLITS = 64  # in one function: each copies a body


def loop_partition(func: PrimFunc, tests_taps: bool = False) -> PrimFunc:
    """`func` with the `likely` guards of splits that do not divide taken out of the main part of each loop.

    A loop is cut where a guard is true for all iterations of the loops inside. The rest keeps the guard, whose variable
    is then often known, so that an inner loop is in turn cut to the iterations that run.

        for i in range(7):                              for i in range(6):
            for j in vectorized(16):                        for j in vectorized(16):
                if likely(i*16 + j < 100):      =>              c[i*16 + j] = 0
                    c[i*16 + j] = 0                     for j in vectorized(4):
                                                            c[96 + j] = 0

    The conditions of `if_then_else` that differ between the lanes of a vectorized loop (padding of the innermost
    dimension) count as guards, too: only where they are certain can the loop become vector code.

    A parallel loop is not cut (that would leave workers idle): its body gets a fast and a guarded version; likewise
    where a guard depends on a quotient or remainder of the loop variable (a fused loop).

    With `tests_taps` guards that cost little stay, so that a tile has no copy for each rim of an image: those around
    the body of a loop that stays one, and those of unrolled taps, of which few are beside the image. For them only
    unrolled loops are cut, whose copies are there anyway.

        for i in range(7):                                          for i in range(7):
            for k in unrolled(3):                          =>           if likely(i - 1 >= 0):
                for j in unrolled(8):                                       for j in unrolled(8):
                    if likely(i + k - 1 >= 0):                                  c[j] += a[i - 1, j] * w[0]
                        c[j] += a[i + k - 1, j] * w[k]                  for k in unrolled(2):
                                                                            for j in unrolled(8):
                                                                                c[j] += a[i + k, j] * w[k + 1]
    """
    if tests_taps:
        func = hoist_if(func, parts=True)
    partitioner = _Partitioner(tests_taps)
    partitioner.find_lane_guards(func.body, frozenset())
    return partitioner(func)


class _Partitioner(StmtRewriter):
    """`ranges` holds what is known of each variable and quotient at the statement being visited."""

    def __init__(self, tests_taps: bool) -> None:
        super().__init__()
        self.tests_taps = tests_taps
        self.ranges: dict[Expr, Interval] = {}
        self.splits = 0
        self.guards: dict[Expr, Guard | None] = {}  # by condition
        self.lane_guards: dict[Stmt, list[Guard]] = {}  # of the stores within vectorized loops

    # ------------------------------------------------------------------------------------------------ guards
    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        """The store with its `if_then_else` decided as far as the ranges tell."""
        return _Decider(self).rebuild(stmt) if stmt in self.lane_guards else stmt

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        """The condition that is left to be tested, without the parts that are certain."""
        kept = self.undecided(stmt.condition)
        if op.is_const(kept, 0):
            return NO_OP if stmt.else_case is None else self(stmt.else_case)
        then_case: Stmt = self(stmt.then_case)
        if op.is_const(kept, 1):
            return then_case
        otherwise = None if stmt.else_case is None else self(stmt.else_case)
        if is_no_op(then_case) and otherwise is None:
            return NO_OP
        return IfThenElse(kept, then_case, otherwise)

    def undecided(self, condition: Expr) -> Expr:
        """`condition` without the guards in it that certainly hold; false if one certainly does not."""
        kept: Expr = op.const(True)
        for part in split_conjunction(condition):
            guard = self._guard(part)
            bounds = None if guard is None else guard.bounds(self.ranges)
            if bounds is not None and bounds[0] > 0:
                return op.const(False)
            if bounds is None or bounds[1] > 0:
                kept = op.logical_and(kept, part)
        return kept

    def _guard(self, condition: Expr) -> Guard | None:
        """The guard that `condition` is, if it is marked `likely` or differs between lanes."""
        if condition not in self.guards and isinstance(condition, Call) and condition.op == "likely":
            self.guards[condition] = read_guard(condition.args[0])
        return self.guards.get(condition)

    @nested
    def find_lane_guards(self, stmt: Stmt, lanes: frozenset[Var]) -> None:
        """Notes the conditions in `stmt` that depend on a variable of `lanes` or of a vectorized loop inside."""
        if type(stmt) is For and stmt.kind is ForKind.VECTORIZED:
            lanes |= {stmt.var}
        if type(stmt) is BufferStore and lanes:
            assert isinstance(stmt, BufferStore)
            parts = [part for c in _lazy_conditions(stmt.value) for part in split_conjunction(c)]
            found = {part: read_guard(part) for part in parts if not lanes.isdisjoint(collect_vars(part))}
            self.guards.update(found)
            self.lane_guards.update({stmt: [g for g in found.values() if g is not None]} if found else {})
        for child in child_stmts(stmt):
            self.find_lane_guards(child, lanes)

    def _guards_in(self, body: Stmt) -> list[Guard]:
        """The guards in `body` that are not certain yet."""
        found: dict[Guard, None] = {}
        for stmt in walk(body):
            if type(stmt) is IfThenElse:
                for part in split_conjunction(stmt.condition):
                    guard = self._guard(part)
                    if guard is not None:
                        found[guard] = None
            found.update(dict.fromkeys(self.lane_guards.get(stmt, ())))
        return list(found)

    # ------------------------------------------------------------------------------------------------- loops
    def visit_For(self, loop: For) -> Stmt:
        """The loop in pieces, or its body in versions, by where its guards are certain."""
        low, extent = loop.min, loop.extent
        if not (isinstance(low, IntImm) and isinstance(extent, IntImm)):
            return self._symbolic(loop)
        guards = self._guards_in(loop.body)
        if not guards:
            return loop
        inner = _loop_ranges(loop.body)
        self.ranges.update(inner)
        self.ranges[loop.var] = whole = (low.value, low.value + extent.value - 1)
        if loop.kind is ForKind.THREAD_BINDING:  # all threads take the same way, so that they can meet at barriers
            return self.rebuild(loop)
        cutting = self._cutting(loop, guards)
        if loop.kind is ForKind.PARALLEL:
            body = self._versions(loop.body, loop.var, [loop.var], guards, cutting)
            return self._loop_over(loop, whole, body)
        pieces = self._pieces(loop.var, whole, cutting)
        return seq(*[self._piece(loop, piece, guards, cutting, inner) for piece in pieces])

    def _cutting(self, loop: For, guards: list[Guard]) -> list[Guard]:
        """Of the guards in a loop those that are worth copies of its body."""
        if not self.tests_taps or loop.kind in (ForKind.UNROLLED, ForKind.VECTORIZED):
            return guards
        lanes = {guard for found in self.lane_guards.values() for guard in found}
        inside = [stmt for stmt in walk(loop.body) if type(stmt) is For]
        stored = {
            var
            for stmt in walk(loop.body)
            if isinstance(stmt, BufferStore)
            for i in stmt.indices
            for var in collect_vars(i)
        }
        return [guard for guard in guards if guard in lanes or not _is_cheap(guard, inside, stored)]

    def _symbolic(self, loop: For) -> Stmt:
        """A loop of symbolic bounds, whose remainders by constants still have known ranges (a fused loop)."""
        self.ranges.pop(loop.var, None)
        guards = self._guards_in(loop.body) if loop.kind is not ForKind.THREAD_BINDING else []
        if not guards:
            return self.rebuild(loop)
        self.ranges.update(_loop_ranges(loop.body))
        return with_fields(loop, body=self._versions(loop.body, loop.var, [], guards, self._cutting(loop, guards)))

    def _pieces(self, var: Var, whole: Interval, guards: list[Guard]) -> list[Interval]:
        """`whole` cut where guards become certain, in order."""
        self.ranges[var] = whole
        main = self._main_part(var, guards)
        if main is None:
            return [whole]
        parts = [[p] if p == main else self._pieces(var, p, guards) for p in _cut(whole, main)]
        return [piece for part in parts for piece in part]

    def _main_part(self, atom: Expr, guards: list[Guard]) -> Interval | None:
        """The values of `atom` that make guards certain, or None where no cut helps.

        Where no value makes a guard true, the values that do not make it false.
        """
        whole = self.ranges[atom]
        sure = _narrowed(whole, [g.always_true_for(atom, self.ranges) for g in guards])
        if sure == whole:
            sure = _narrowed(whole, [g.maybe_true_for(atom, self.ranges) for g in guards])
        if sure == whole or self.splits >= MOST_SPLITS:
            return None
        self.splits += 1
        return sure

    def _piece(
        self, loop: For, piece: Interval, guards: list[Guard], cutting: list[Guard], inner: dict[Expr, Interval]
    ) -> Stmt:
        """`loop` over the values `piece` only."""
        self.ranges.update(inner)
        self.ranges[loop.var] = piece
        body = self._versions(loop.body, loop.var, [], guards, cutting)
        return NO_OP if is_no_op(body) else self._loop_over(loop, piece, body)

    def _loop_over(self, loop: For, piece: Interval, body: Stmt) -> Stmt:
        low, high = (op.const(v, loop.var.dtype) for v in piece)
        if piece == (loop.min.value, loop.min.value + loop.extent.value - 1):  # type: ignore[attr-defined]
            return with_fields(loop, body=body)
        if low is high:
            return substitute_var(body, loop.var, low)
        var = Var(loop.var.name, loop.var.dtype)
        body = substitute_var(body, loop.var, var if loop.kind is not ForKind.VECTORIZED else var + low)
        start = op.const(0, var.dtype) if loop.kind is ForKind.VECTORIZED else low
        return with_fields(loop, var=var, min=start, extent=high - low + 1, body=body)

    def _versions(self, body: Stmt, var: Var, atoms: list[Expr], guards: list[Guard], cutting: list[Guard]) -> Stmt:
        """`body` in a version for the values of `atoms`, and of quotients of `var` in guards, that decide `cutting`."""
        later = {s.var for s in walk(body) if isinstance(s, (For, LetStmt))}
        for atom in dict.fromkeys(atom for guard in guards for atom, _ in guard.terms):
            if atom in atoms or not isinstance(atom, (FloorDiv, FloorMod)):
                continue
            known = self._quotient_range(atom)
            inside = collect_vars(atom)
            if known is not None and var in inside and later.isdisjoint(inside):
                self.ranges[atom] = known
                atoms = [*atoms, atom]
        return self._version(body, atoms, cutting)

    def _version(self, body: Stmt, atoms: list[Expr], guards: list[Guard]) -> Stmt:
        for position, atom in enumerate(atoms):
            whole = self.ranges[atom]
            main = self._main_part(atom, guards)
            if main is None:
                continue
            known = dict(self.ranges)
            result: Stmt | None = None
            for piece in sorted(_cut(whole, main), key=lambda p: p != main, reverse=True):
                self.ranges = {**known, atom: piece}
                version = self._version(body, atoms[position + (piece == main) :], guards)
                result = version if result is None else IfThenElse(_within(atom, piece, whole), version, result)
            self.ranges = known
            assert result is not None
            return result
        made: Stmt = self(body)
        return made

    @nested
    def _quotient_range(self, atom: FloorDiv | FloorMod) -> Interval | None:
        """The values of atom = x // c or x % c, c > 0, from the range of x."""
        if not isinstance(atom.b, IntImm) or atom.b.value <= 0:
            return None
        c = atom.b.value
        inside = atom.a
        known = self.ranges.get(inside)
        if known is None and isinstance(inside, (FloorDiv, FloorMod)):
            known = self._quotient_range(inside)
        if isinstance(atom, FloorMod):
            return (0, c - 1) if known is None or known[0] < 0 or known[1] >= c else known
        return None if known is None else (known[0] // c, known[1] // c)


class _Decider(FoldingRewriter):
    """Rewrites expressions with what is known now of the conditions of `if_then_else`."""

    def __init__(self, partitioner: _Partitioner) -> None:
        super().__init__()
        self.partitioner = partitioner

    def visit_Call(self, x: Call) -> Expr:
        """A call, or what a decided condition leaves of it."""
        if x.op != "if_then_else":
            return self.rebuild(x)
        return op.if_then_else(self.partitioner.undecided(x.args[0]), self(x.args[1]), self(x.args[2]))


def _is_cheap(guard: Guard, loops: list[For], stored: set[Var]) -> bool:
    """True for a guard around the body of a loop that stays one, or of unrolled taps: loops whose stores do not move.

    `loops` are those inside of the one that might be cut, the outer ones first.
    """
    variables = {var for atom, _ in guard.terms for var in collect_vars(atom)}
    own = [loop for loop in loops if loop.var in variables]
    if own and own[-1].kind is ForKind.SERIAL:
        return True
    unrolled = itertools.takewhile(lambda loop: loop.kind is ForKind.UNROLLED, reversed(own))
    return any(loop.var not in stored for loop in unrolled)


def _lazy_conditions(x: Expr) -> list[Expr]:
    """The conditions of the `if_then_else` calls in `x`."""
    found: list[Expr] = []

    def visit(y: Node) -> None:
        if isinstance(y, Call) and y.op == "if_then_else":
            found.append(y.args[0])

    post_order(x, visit)
    return found


def _narrowed(whole: Interval, wanted: list[Interval | None]) -> Interval:
    """`whole` cut down to the intervals `wanted`, leaving out those that are unknown, empty or would leave nothing."""
    low, high = whole
    for interval in wanted:
        if interval is not None and max(low, interval[0]) <= min(high, interval[1]):
            low, high = max(low, interval[0]), min(high, interval[1])
    return low, high


def _cut(whole: Interval, main: Interval) -> list[Interval]:
    """`whole` as up to three intervals in order, `main` one of them."""
    pieces = [(whole[0], main[0] - 1), main, (main[1] + 1, whole[1])]
    return [p for p in pieces if p[0] <= p[1]]


def _within(atom: Expr, piece: Interval, whole: Interval) -> Expr:
    low = op.const(True) if piece[0] == whole[0] else atom >= piece[0]
    high = op.const(True) if piece[1] == whole[1] else atom <= piece[1]
    return op.logical_and(low, high)


def _loop_ranges(body: Stmt) -> dict[Expr, Interval]:
    """The values of the loop variables in `body` whose loops have constant bounds."""
    ranges: dict[Expr, Interval] = {}
    unknown: set[Expr] = set()
    for stmt in walk(body):
        if type(stmt) is not For:
            continue
        if not (isinstance(stmt.min, IntImm) and isinstance(stmt.extent, IntImm)):
            unknown.add(stmt.var)
            continue
        low, high = stmt.min.value, stmt.min.value + stmt.extent.value - 1
        old = ranges.get(stmt.var, (low, high))
        ranges[stmt.var] = (min(low, old[0]), max(high, old[1]))
    return {var: known for var, known in ranges.items() if var not in unknown}
