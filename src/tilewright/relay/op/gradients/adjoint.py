"""Reverse-mode differentiation of straight-line graphs, as graph code: no closures, no references, nothing at run time.

Each node gets an adjoint, the gradient of the result with respect to it, from those of its users, in reverse order of
evaluation; each operator's `gradient` says how. What is built refers to nodes of the graph itself, so the values of
the forward computation are shared, not computed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Call, Expr, Let, Tuple, TupleGetItem, Var
from tilewright.relay.ir.registry import Expansion, Op
from tilewright.relay.ir.type import TensorType, TupleType, Type
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children, post_order, substitute
from tilewright.relay.op.tensor import ones, zeros
from tilewright.support.recursion import nested

#: The adjoint of a value as far as it is known: of a tensor an expression, of a tuple one per field; None is zero.
Partial = Expr | None | list[Any]


def adjoints(output: Expr, wrt: Sequence[Expr], seed: Expr | None = None) -> list[Expr]:
    """Gradients of `output` with respect to the expressions `wrt` (variables or inner nodes), of their types.

    `seed`, of the type of `output`, is what the gradients are multiplied by from the left; by default 1 for every
    element, which makes them the gradients of the sum of all elements of `output`.

    Raises UnsupportedError naming the call of an operator that has no gradient, or the node that is no straight line.
    """
    output = inline_lets(output)
    type_of(output)
    order = post_order(output)
    active = _active(order, wrt)
    found: dict[Expr, Partial] = {}
    if output in active:
        found[output] = _split(seed or _ones(type_of(output)), type_of(output))
    for node in reversed(order):
        partial = found.get(node)
        if _is_zero(partial) or node not in active:
            continue
        for kid, part in _flow(node, partial):
            if kid in active:
                found[kid] = _merge(found.get(kid), part)
    return [_whole(found.get(target), type_of(target)) for target in wrt]


def inline_lets(expr: Expr) -> Expr:
    """`expr` with the values of `Let` in place of their variables; sharing stays, for a node is computed once."""
    values: dict[Expr, Expr] = {}
    for node in post_order(expr):
        if isinstance(node, Let):
            values[node.var] = substitute(node.value, values)
            values[node] = substitute(node.body, values)
    return values.get(expr) or (substitute(expr, values) if values else expr)


def is_straight_line(expr: Expr) -> bool:
    """True if `expr` holds operators, tuples and lets of such only: what `adjoints` can differentiate."""
    return all(_is_straight(node) for node in post_order(expr))


def _is_straight(node: Expr) -> bool:
    if isinstance(node, Call):
        return isinstance(node.op, Op)
    return isinstance(node, Tuple | TupleGetItem | Let | Var) or not children(node)


def _active(order: Sequence[Expr], wrt: Sequence[Expr]) -> set[Expr]:
    """The nodes through which a gradient flows to `wrt`: they depend on it and hold floating point."""
    active: set[Expr] = set()
    targets = set(wrt)
    for node in order:
        reached = node in targets or any(kid in active for kid in children(node))
        if reached and holds_float(type_of(node)):
            active.add(node)
    return active


@nested
def holds_float(type_: Type) -> bool:
    """True if some tensor inside `type_`, a tensor or a tuple, has a gradient."""
    if isinstance(type_, TupleType):
        return any(holds_float(field) for field in type_.fields)
    return isinstance(type_, TensorType) and type_.dtype.is_float


def _flow(node: Expr, partial: Partial) -> list[tuple[Expr, Partial]]:
    """The adjoint that `node` passes to each of its operands."""
    if isinstance(node, Tuple):
        return list(zip(node.fields, cast("list[Partial]", partial), strict=True))
    if isinstance(node, TupleGetItem):
        kind = cast(TupleType, type_of(node.tuple_value))
        return [(node.tuple_value, [partial if i == node.index else None for i in range(len(kind.fields))])]
    if isinstance(node, Call) and isinstance(node.op, Op):
        gradients = operator_gradient(node, _whole(partial, type_of(node)))
        return [(arg, _split(g, type_of(arg))) for arg, g in zip(node.args, gradients, strict=True) if g is not None]
    if not children(node):
        return []
    raise UnsupportedError(
        f"a {type(node).__name__} is no straight-line code; use gradient(…, mode='higher_order') for it"
    )


def operator_gradient(call: Call, g: Expr) -> Sequence[Expr | None]:
    """The gradients of the arguments of a call of an operator, from its table entry or from its expansion.

    Raises UnsupportedError naming the call of an operator that has none.
    """
    op = call.op
    assert isinstance(op, Op)
    if op.gradient is not None:
        return op.gradient(call, g)
    if op.expansion is not None:
        return gradient_of_parts(call, g, op.expansion)
    where = f" (from {call.span})" if call.span else ""
    args = ", ".join(str(type_of(arg)) for arg in call.args)
    attrs = f", {call.attrs!r}" if call.attrs else ""
    raise UnsupportedError(
        f"{op.name}({args}{attrs}){where} has no gradient; leave what depends on it out of the loss, or set "
        f"it with registry.set_gradient({op.name!r}, …)"
    )


def gradient_of_parts(call: Call, g: Expr, expression: Expansion) -> Sequence[Expr | None]:
    """The gradients of the arguments of `call`, which stands for `expression(args, attrs)`.

    The expression is differentiated on variables of its own, since one value may be several of the arguments.
    """
    known: dict[Expr, Expr] = {}
    args = [_stand_in(arg, known) for arg in call.args]
    seed = _stand_in(g, known, type_of(call))
    leaves = [leaf for leaf in known if leaf is not seed]
    found = dict(zip(leaves, adjoints(expression(args, call.attrs), leaves, seed), strict=True))
    return [substitute(_over_leaves(arg, found), known) for arg in args]


@nested
def _stand_in(value: Expr, known: dict[Expr, Expr], type_: Type | None = None) -> Expr:
    """A variable for `value`, or a tuple of variables for a tuple; `known` maps each variable to what it stands for."""
    if isinstance(value, Tuple):
        stand_in: Expr = Tuple([_stand_in(field, known) for field in value.fields])
        type_of(stand_in)
        return stand_in
    kind = type_ or type_of(value)
    var = Var(f"x{len(known)}", kind)
    var.set_inferred_type(kind)
    known[var] = value
    return var


@nested
def _over_leaves(arg: Expr, found: Mapping[Expr, Expr]) -> Expr:
    return Tuple([_over_leaves(field, found) for field in arg.fields]) if isinstance(arg, Tuple) else found[arg]


# --------------------------------------------------------------------------------------------- partial adjoints
@nested
def _is_zero(partial: Partial) -> bool:
    return partial is None or (isinstance(partial, list) and all(_is_zero(part) for part in partial))


@nested
def _merge(a: Partial, b: Partial) -> Partial:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, list):
        return [_merge(x, y) for x, y in zip(a, cast("list[Partial]", b), strict=True)]
    return a + b


@nested
def _split(value: Expr, type_: Type) -> Partial:
    """The adjoint `value` of a node of `type_`: taken apart if it is a tuple; None where there is no floating point."""
    if isinstance(type_, TupleType):
        fields = value.fields if isinstance(value, Tuple) else [value[i] for i in range(len(type_.fields))]
        return [_split(field, kind) for field, kind in zip(fields, type_.fields, strict=True)]
    return value if holds_float(type_) else None


@nested
def _whole(partial: Partial, type_: Type) -> Expr:
    """The expression of an adjoint of `type_`, zeros where nothing is known."""
    if isinstance(type_, TupleType):
        parts = partial if isinstance(partial, list) else [None] * len(type_.fields)
        return Tuple([_whole(part, kind) for part, kind in zip(parts, type_.fields, strict=True)])
    assert isinstance(type_, TensorType) and not isinstance(partial, list)
    return zeros(type_.shape, str(type_.dtype)) if partial is None else partial


@nested
def _ones(type_: Type) -> Expr:
    if isinstance(type_, TupleType):
        return Tuple([_ones(field) for field in type_.fields])
    assert isinstance(type_, TensorType)
    return ones(type_.shape, str(type_.dtype))
