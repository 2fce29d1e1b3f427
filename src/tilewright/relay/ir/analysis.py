"""Questions about expressions that passes and programs ask; the walkers they are built on are in `visitor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tilewright.errors import InputError
from tilewright.relay.ir.adt import Match
from tilewright.relay.ir.expr import Expr, Function, Var
from tilewright.relay.ir.match_coverage import uncovered
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.structural import structural_equal
from tilewright.relay.ir.type import FuncType, Type, TypeVar, walk_type
from tilewright.relay.ir.visitor import all_vars, binders, bound_vars, free_vars, post_order, substitute

__all__ = [
    "all_type_vars",
    "all_vars",
    "alpha_equal",
    "bind",
    "bound_type_vars",
    "bound_vars",
    "free_type_vars",
    "free_vars",
    "post_order_visit",
    "unmatched_cases",
]


def post_order_visit(expr: Expr, visit: Callable[[Expr], object]) -> None:
    """Call `visit` on every node below `expr`, each once, operands first, and the variables that nodes bind."""
    seen: set[Expr] = set()
    for node in post_order(expr):
        for each in (*binders(node), node):
            if each not in seen:
                seen.add(each)
                visit(each)


def alpha_equal(a: Expr | Type, b: Expr | Type) -> bool:
    """True if `a` and `b` are equal up to the names of what they bind. Free variables must be the same objects."""
    if isinstance(a, Type) or isinstance(b, Type):
        return a == b
    return structural_equal(a, b) and free_vars(a) == free_vars(b)


def bind(expr: Expr, values: Mapping[str | Var, Expr]) -> Expr:
    """`expr` with free variables, or the parameters of a function, replaced; by name or as objects.

    A function loses the parameters that were bound. Raises InputError for a name that `expr` does not have.
    """
    known = list(expr.params) if isinstance(expr, Function) else free_vars(expr)
    mapping: dict[Expr, Expr] = {}
    for key, value in values.items():
        found = [var for var in known if var is key or var.name == key]
        if not found:
            raise InputError(f"there is no variable {key!r} to bind; there are: {', '.join(v.name for v in known)}")
        mapping[found[0]] = value
    if not isinstance(expr, Function):
        return substitute(expr, mapping)
    params = [param for param in expr.params if param not in mapping]
    return Function(params, substitute(expr.body, mapping), expr.ret_type, expr.type_params, expr.attrs)


def unmatched_cases(match: Match, mod: IRModule) -> str | None:
    """A value, written as a pattern, that no clause of `match` fits; None if there is none."""
    return uncovered(match, mod)


def bound_type_vars(root: Expr | Type) -> list[TypeVar]:
    """The type parameters of the functions and function types within `root`, in order of first appearance."""
    found: dict[TypeVar, None] = {}
    for node in post_order(root) if isinstance(root, Expr) else ():
        if isinstance(node, Function):
            found.update(dict.fromkeys(node.type_params))
    for type_ in written_types(root) if isinstance(root, Expr) else (root,):
        for part in walk_type(type_):
            if isinstance(part, FuncType):
                found.update(dict.fromkeys(part.type_params))
    return list(found)


def all_type_vars(root: Expr | Type) -> list[TypeVar]:
    """The type variables that `root` declares or mentions."""
    mentioned = _mentioned(written_types(root) if isinstance(root, Expr) else (root,))
    return list(dict.fromkeys([*bound_type_vars(root), *mentioned]))


def free_type_vars(root: Expr | Type) -> list[TypeVar]:
    """The type variables that `root` mentions and does not declare."""
    bound = set(bound_type_vars(root))
    return [var for var in all_type_vars(root) if var not in bound]


def written_types(root: Expr) -> list[Type]:
    """The types written in `root`: of variables, and the results of functions."""
    found: list[Type] = []
    seen: set[Expr] = set()
    for node in post_order(root):
        for var in (*binders(node), node):
            if isinstance(var, Var) and var not in seen and var.type_annotation is not None:
                seen.add(var)
                found.append(var.type_annotation)
        if isinstance(node, Function) and node.ret_type is not None:
            found.append(node.ret_type)
    return found


def _mentioned(types: Iterable[Type]) -> list[TypeVar]:
    return [part for type_ in types for part in walk_type(type_) if isinstance(part, TypeVar)]
