"""A copy of an expression with variables of its own, so that both can stand in one program.

Before: fn (%x) { let %y = exp(%x); %y }
After:  fn (%x) { let %y = exp(%x); %y }                                        (other variables of the same names)
"""

from __future__ import annotations

from tilewright.relay.ir.adt import Clause, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from tilewright.relay.ir.expr import Expr, Function, Let, Var
from tilewright.relay.ir.visitor import bound_vars, rewrite


def rename_bound(expr: Expr) -> Expr:
    """`expr` with a fresh variable for each one that it binds; free variables stay."""
    fresh: dict[Expr, Expr] = {var: Var(var.name, var.type_annotation) for var in bound_vars(expr)}

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, Let):
            return Let(_var(node.var, fresh), node.value, node.body)
        if isinstance(node, Function) and not node.is_primitive:
            params = [_var(param, fresh) for param in node.params]
            return Function(params, node.body, node.ret_type, node.type_params, node.attrs)
        if isinstance(node, Match):
            return Match(node.data, [Clause(_pattern(c.lhs, fresh), c.rhs) for c in node.clauses], node.complete)
        return None

    return rewrite(expr, rule, dict(fresh)) if fresh else expr


def _var(var: Var, fresh: dict[Expr, Expr]) -> Var:
    renamed = fresh[var]
    assert isinstance(renamed, Var)
    return renamed


def _pattern(pattern: Pattern, fresh: dict[Expr, Expr]) -> Pattern:
    if isinstance(pattern, PatternVar):
        return PatternVar(_var(pattern.var, fresh))
    if isinstance(pattern, PatternConstructor):
        return PatternConstructor(pattern.constructor, [_pattern(part, fresh) for part in pattern.patterns])
    if isinstance(pattern, PatternTuple):
        return PatternTuple([_pattern(part, fresh) for part in pattern.patterns])
    return pattern
