"""Versions of a tile's code for the inside of an image and for its first and last tile."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.expr import Call, Expr, FloatImm, IntImm, Var
from tilewright.tir.stmt import BufferStore, For, IfThenElse, Stmt
from tilewright.tir.transform.affine import Guard, read_guard, split_conjunction
from tilewright.tir.transform.folding import FoldingRewriter, substitute_var
from tilewright.tir.transform.statements import walk
from tilewright.tir.visitor import post_order


def specialize_borders(body: Stmt, start: Var, last: Expr, otherwise: Stmt) -> Stmt:
    """`body`, a tile that begins at `start`, in versions where its `likely` guards are certain, else `otherwise`.

        for i in unrolled(8):                           if start >= 0 and start - 1 >= 0 and start + 8 < n:
            if likely(start + i - 1 >= 0)                   for i in unrolled(8): …
                    and likely(start + i + 1 < n):   =>  else if start == 0 and start + 8 < n:
                …                                           (start is 0: the guard of i decides itself)
                                                        else if start == last and start - 1 >= 0:
                                                            (start is last)
                                                        else: (otherwise)

    What chooses between a value and padding, `if_then_else(condition, value, 0)`, is treated like a guard. `start` is
    `last` at most, and below 0 where there is no room for a tile. Guards whose other variables are no loops
    of constant extent within `body` stay in all versions.
    """
    low, high = _border_guards(body, start)
    low_holds, high_holds = _all(low), _all(high)
    inside = op.logical_and(start >= 0, op.logical_and(low_holds, high_holds))
    result = IfThenElse(inside, _Without({**low, **high})(body), otherwise)
    if low and high:
        at_end = substitute_var(_Without(low)(body), start, last)
        result = _or_else(result, op.logical_and(op.eq(start, last), low_holds), at_end)
        at_begin = substitute_var(_Without(high)(body), start, op.const(0, start.dtype))
        result = _or_else(result, op.logical_and(op.eq(start, 0), high_holds), at_begin)
    return result


def has_borders(body: Stmt, start: Var) -> bool:
    """True if some guards within `body` hold for all but the first and the last tiles."""
    return any(_border_guards(body, start))


def _border_guards(body: Stmt, start: Var) -> tuple[dict[Expr, Expr], dict[Expr, Expr]]:
    """The guards that bound `start` from below and from above: what each needs in order to hold all over the tile."""
    ranges = {s.var: s.extent.value - 1 for s in walk(body) if isinstance(s, For) and isinstance(s.extent, IntImm)}
    low: dict[Expr, Expr] = {}
    high: dict[Expr, Expr] = {}
    for condition in _conditions(body):
        guard = read_guard(condition.args[0] if _is_likely(condition) else condition)  # type: ignore[attr-defined]
        factor = 0 if guard is None else dict(guard.terms).get(start, 0)
        if guard is not None and factor:
            worst = _worst(guard, ranges, body)
            if worst is not None:
                (high if factor > 0 else low)[condition] = worst
    return low, high


def _or_else(versions: IfThenElse, condition: Expr, body: Stmt) -> IfThenElse:
    """`versions` with one more before the last resort."""
    return IfThenElse(versions.condition, versions.then_case, IfThenElse(condition, body, versions.else_case))


def _conditions(body: Stmt) -> list[Expr]:
    """The `likely` parts of the conditions of statements, and those that choose between a value and padding."""
    found: dict[Expr, None] = {}

    def visit(x: object) -> None:
        if _is_padded(x):
            found.update(dict.fromkeys(split_conjunction(x.args[0])))  # type: ignore[attr-defined]

    for stmt in walk(body):
        if isinstance(stmt, IfThenElse):
            found.update(dict.fromkeys(part for part in split_conjunction(stmt.condition) if _is_likely(part)))
        elif isinstance(stmt, BufferStore):
            post_order(stmt.value, visit)
    return list(found)


def _is_likely(x: Expr) -> bool:
    return isinstance(x, Call) and x.op == "likely"


def _is_padded(x: object) -> bool:
    return isinstance(x, Call) and x.op == "if_then_else" and isinstance(x.args[2], FloatImm | IntImm)


def _worst(guard: Guard, ranges: dict[Var, int], body: Stmt) -> Expr | None:
    """The guard with each inner variable at the end of its range where the guard is hardest to fulfil."""
    inside = {s.var for s in walk(body) if isinstance(s, For)}
    total: Expr = op.const(guard.constant)
    for atom, factor in guard.terms:
        if isinstance(atom, Var) and atom in ranges:
            total = total + (ranges[atom] * factor if factor > 0 else 0)
        elif atom in inside or not isinstance(atom, Var):
            return None
        else:
            total = total + atom * factor
    return total <= 0


def _all(conditions: dict[Expr, Expr]) -> Expr:
    result: Expr = op.const(True)
    for condition in dict.fromkeys(conditions.values()):
        result = op.logical_and(result, condition)
    return result


class _Without(FoldingRewriter):
    """Leaves out the conditions `true`."""

    def __init__(self, true: dict[Expr, Expr]) -> None:
        super().__init__()
        self.true = true

    def visit_Call(self, x: Call) -> Expr:
        """A call; of what chooses between a value and padding, the value where that is sure."""
        made = self.rebuild(x)
        if not _is_padded(made):
            return made
        condition, value, padding = made.args
        kept = self._left(condition)
        return value if op.is_const(kept, 1) else op.if_then_else(kept, value, padding)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        """The condition that is left to be tested."""
        stmt: IfThenElse = self.rebuild(node)
        kept = self._left(stmt.condition)
        return stmt.then_case if op.is_const(kept, 1) else IfThenElse(kept, stmt.then_case, stmt.else_case)

    def _left(self, condition: Expr) -> Expr:
        kept: Expr = op.const(True)
        for part in split_conjunction(condition):
            if part not in self.true:
                kept = op.logical_and(kept, part)
        return kept
