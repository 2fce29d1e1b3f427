"""`tvm.ir.structural_equal` and its kin, for expressions, types and modules."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.runtime.refused import Refused
from tilewright.relay.ir.structural import structural_key
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
        return all(_same_functions(lhs[name], rhs[name]) for name in names)
    if isinstance(lhs, list | tuple) and isinstance(rhs, list | tuple):
        return len(lhs) == len(rhs) and all(
            structural_equal(one, other, map_free_vars) for one, other in zip(lhs, rhs, strict=True)
        )
    if isinstance(lhs, PrimFunc | Stmt) and isinstance(rhs, PrimFunc | Stmt):
        return same_loops(lhs, rhs)
    if isinstance(lhs, relay.Expr) and isinstance(rhs, relay.Expr):
        same_free = map_free_vars or relay.visitor.free_vars(lhs) == relay.visitor.free_vars(rhs)
        return same_free and _same_expressions(lhs, rhs)
    return bool(lhs == rhs)


def _same_functions(lhs: Any, rhs: Any) -> bool:
    if isinstance(lhs, relay.Expr) and isinstance(rhs, relay.Expr):
        return _same_expressions(lhs, rhs)
    return structural_equal(lhs, rhs)


def _same_expressions(lhs: relay.Expr, rhs: relay.Expr) -> bool:
    """True if the types that are declared of bound variables are the same, or those that were inferred."""
    return lhs is rhs or any(
        _same_keys(structural_key(lhs, inferred), structural_key(rhs, inferred)) for inferred in (False, True)
    )


#: Attributes that differ by no more are equal: 1e-5 is what is read from a constant in float32, too.
_FLOAT_DIFFERENCE = 1e-9


def _same_keys(lhs: Any, rhs: Any) -> bool:
    """True for equal nested tuples; their floats may differ a little."""
    if lhs == rhs:
        return True
    if isinstance(lhs, tuple) and isinstance(rhs, tuple):
        return len(lhs) == len(rhs) and all(map(_same_keys, lhs, rhs))
    one, other = _float(lhs), _float(rhs)
    return one is not None and other is not None and abs(one - other) < _FLOAT_DIFFERENCE


def _float(text: Any) -> float | None:
    """The float that an attribute's text stands for; None for another text, whole numbers included."""
    if not isinstance(text, str) or text.lstrip("-").isdigit():
        return None
    try:
        return float(text)
    except ValueError:
        return None


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


def assert_structural_equal_ignore_global_symbol(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """`assert_structural_equal` of loop functions, or modules of one, whose names may differ."""
    assert_structural_equal(_only_function(lhs), _only_function(rhs), map_free_vars)


def _only_function(value: Any) -> Any:
    """The loop function of a module of one."""
    functions = list(getattr(value, "prim_funcs", ()))
    return functions[0] if len(functions) == 1 else value


def no_renderer() -> Refused:
    """The renderer of errors: none that a program could call."""
    return Refused("a renderer of diagnostics", "errors are exceptions: their message shows the program's text")
