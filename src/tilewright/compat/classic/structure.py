"""`tvm.ir.structural_equal` and its kin, for expressions, types and modules."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.classic.refused import Refused
from tilewright.relay.ir.type import Type
from tilewright.tir.operators import EqualOp
from tilewright.tir.stmt import PrimFunc, Stmt
from tilewright.tir.structural import structural_equal as same_loops


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """True if both are equal up to the names of variables; free variables are matched in order of first use."""
    lhs, rhs = (side.as_expr() if isinstance(side, EqualOp) else side for side in (lhs, rhs))
    if isinstance(lhs, Type) or isinstance(rhs, Type):
        return bool(lhs == rhs)
    if isinstance(lhs, relay.IRModule) and isinstance(rhs, relay.IRModule):
        names = sorted(gvar.name for gvar in lhs)
        if names != sorted(gvar.name for gvar in rhs):
            return False
        return all(relay.structural_equal(lhs[name], rhs[name]) for name in names)
    if isinstance(lhs, list | tuple) and isinstance(rhs, list | tuple):
        return len(lhs) == len(rhs) and all(
            structural_equal(one, other, map_free_vars) for one, other in zip(lhs, rhs, strict=True)
        )
    if isinstance(lhs, PrimFunc | Stmt) and isinstance(rhs, PrimFunc | Stmt):
        return same_loops(lhs, rhs)
    if isinstance(lhs, relay.Expr) and isinstance(rhs, relay.Expr):
        same_free = map_free_vars or relay.visitor.free_vars(lhs) == relay.visitor.free_vars(rhs)
        return same_free and relay.structural_equal(lhs, rhs)
    return bool(lhs == rhs)


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A number that is equal for structurally equal expressions; free variables are themselves, unless mapped."""
    if not isinstance(node, relay.Expr):
        return hash(node)
    own = int(relay.structural_hash(node)[:16], 16)
    free = () if map_free_vars else tuple(map(id, relay.visitor.free_vars(node)))
    return hash((own, free)) if free else own


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise `ValueError` showing both, unless they are structurally equal."""
    if not structural_equal(lhs, rhs, map_free_vars):
        raise ValueError(f"StructuralEqual check failed:\n{lhs!r}\nis not\n{rhs!r}")


def no_renderer() -> Refused:
    """What shows errors: nothing that a program could call."""
    return Refused("a renderer of diagnostics", "errors are exceptions: their message shows the program's text")
