"""Compute positions that no loop changes before the loops, for compilers of kernels that leave them within."""

from __future__ import annotations

from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir.expr import Expr, IntImm, Var
from tilewright.tir.stmt import For, LetStmt, PrimFunc, Stmt
from tilewright.tir.transform.bind_threads import is_thread_loop
from tilewright.tir.transform.statements import with_fields
from tilewright.tir.visitor import StmtRewriter, children

#: Arithmetic that takes as long as a product, or longer; sums alone stay where they are.
_WORK = (e.Mul, e.FloorDiv, e.FloorMod, e.Div, e.Mod)
_PURE = (*_WORK, e.Add, e.Sub, e.Min, e.Max, IntImm, Var)


def hoist_positions(kernel: PrimFunc) -> PrimFunc:
    """`kernel` with integers computed from its threads' numbers and its scalars alone before its loops.

        for b, t in threads:                        for b, t in threads:
            for k in range(100):                        p = (b * 8 + t) / 9 * 40
                s += x[(b * 8 + t) / 9 * 40 + k]  =>    for k in range(100):
                                                            s += x[p + k]

    Terms of a sum that no loop changes are added up before. Divisions are by constants, so that none fails where a
    condition kept it from being computed. Runs on the body of one kernel.
    """
    fixed = {param for param in kernel.params if isinstance(param, Var)}
    loops: list[For] = []
    body: Stmt = kernel.body
    while is_thread_loop(body):
        assert isinstance(body, For)
        loops.append(body)
        fixed.add(body.var)
        body = body.body
    hoister = _Hoister(fixed)
    body = hoister(body)
    for value, var in reversed(hoister.found.items()):
        body = LetStmt(var, value, body)
    for loop in reversed(loops):
        body = with_fields(loop, body=body)
    return kernel.with_body(body) if hoister.found else kernel


class _Hoister(StmtRewriter):
    def __init__(self, fixed: set[Var]) -> None:
        super().__init__()
        self.fixed = fixed
        self.found: dict[Expr, Var] = {}
        self.depth = 0
        self._stays: dict[Expr, bool] = {}

    def visit_For(self, node: For) -> Stmt:
        """The loop, with what is within looked for."""
        self.depth += 1
        made = self.rebuild(node)
        self.depth -= 1
        return made

    def visit_Expr(self, x: Expr) -> Expr:
        """The variable of a position that stays the same and takes some work; sums come apart."""
        if not self.depth or not x.dtype.is_int or x.dtype.lanes > 1:
            return self.rebuild(x)
        if self._is_fixed(x):
            return self._named(x) if _has_work(x) else x
        if not isinstance(x, e.Add):
            return self.rebuild(x)
        terms = _terms(x)
        same = [term for term in terms if self._is_fixed(term)]
        if not any(_has_work(term) for term in same):
            return self.rebuild(x)
        found = self._named(_sum(same))
        return e.Add(found, _sum([self(term) for term in terms if not self._is_fixed(term)]))

    def _named(self, x: Expr) -> Var:
        return self.found.setdefault(x, Var(f"at_{len(self.found)}", x.dtype))

    @nested
    def _is_fixed(self, x: Expr) -> bool:
        if x not in self._stays:
            divides = isinstance(x, e.FloorDiv | e.FloorMod | e.Div | e.Mod)
            known = isinstance(x, _PURE) and (not isinstance(x, Var) or x in self.fixed)
            whole = not divides or (isinstance(x.b, IntImm) and x.b.value > 0)  # type: ignore[attr-defined]
            self._stays[x] = x.dtype.is_int and known and whole and all(map(self._is_fixed, children(x)))
        return self._stays[x]


@nested
def _has_work(x: Expr) -> bool:
    return isinstance(x, _WORK) or any(_has_work(child) for child in children(x) if isinstance(child, Expr))


def _terms(x: Expr) -> list[Expr]:
    """The terms of a sum, in order."""
    found, rest = [], [x]
    while rest:
        one = rest.pop()
        if isinstance(one, e.Add):
            rest += [one.b, one.a]
        else:
            found.append(one)
    return found


def _sum(terms: list[Expr]) -> Expr:
    found = terms[0]
    for term in terms[1:]:
        found = e.Add(found, term)
    return found
