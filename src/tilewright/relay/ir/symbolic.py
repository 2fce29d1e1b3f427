"""Symbolic dimensions of functions: which there are, in plain data for the manifest, and as parameters of kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilewright.errors import ShapeError
from tilewright.relay.ir.expr import Attrs, Call, Expr, Function, Var
from tilewright.relay.ir.type import Dim, TensorType, Type, as_dim, map_type, walk_type
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children, post_order, rebuild
from tilewright.support.open_sizes import Shapes, shapes_by_name
from tilewright.tir import expr as e
from tilewright.tir.expr import SizeVar
from tilewright.tir.size_hint import size_hint
from tilewright.tir.visitor import collect_vars, substitute


def dims_of(type_: Type) -> Iterator[Dim]:
    """The dimensions of all tensors in `type_`, in order."""
    for part in walk_type(type_):
        if isinstance(part, TensorType):
            yield from part.shape


def attr_exprs(value: Any) -> Iterator[e.Expr]:
    """The loop IR expressions among the values of attributes, nested ones too."""
    if isinstance(value, e.Expr):
        yield value
    elif isinstance(value, Attrs):
        for item in value.values():
            yield from attr_exprs(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from attr_exprs(item)


def size_vars(function: Function) -> list[SizeVar]:
    """The size variables of a function, those of its parameters first, then those of attributes, as they are met."""
    found: dict[Any, None] = {}
    for param in function.params:
        for dim in dims_of(type_of(param)):
            if isinstance(dim, e.Expr):
                found.update(dict.fromkeys(collect_vars(dim)))
    for node in post_order(function.body):
        if isinstance(node, Call) and node.attrs:
            for expr in attr_exprs(node.attrs):
                found.update(dict.fromkeys(collect_vars(expr)))
    return list(found)


def map_dims(function: Function, rule: Callable[[Dim], Dim]) -> Function:
    """`function` with `rule` applied to every dimension of its parameters' types and every expression in attributes.

    Types within are inferred anew. The same function if nothing changes.
    """
    mapping: dict[Expr, Expr] = {}
    for param in function.params:
        type_ = map_type_dims(type_of(param), rule)
        if type_ is not type_of(param):
            mapping[param] = Var(param.name, type_)
    made: dict[Expr, Expr] = dict(mapping)
    for node in post_order(function.body):
        if node in made:
            continue
        kids = children(node)
        fresh = rebuild(node, tuple([made[kid] for kid in kids])) if kids else node
        if isinstance(fresh, Call) and next(attr_exprs(fresh.attrs), None) is not None:
            fresh = Call(fresh.op, fresh.args, map_attrs(fresh.attrs, rule), fresh.span)
        made[node] = fresh
    body = made[function.body]
    if body is function.body and not mapping:
        return function
    params = [mapping.get(param, param) for param in function.params]
    result = Function(params, body, None, attrs=function.attrs)  # type: ignore[arg-type]
    type_of(result)
    return result


def map_type_dims(type_: Type, rule: Callable[[Dim], Dim]) -> Type:
    """`type_` with `rule` applied to every dimension of its tensors."""

    def part(leaf: Type) -> Type | None:
        if not isinstance(leaf, TensorType):
            return None
        shape = tuple([rule(dim) for dim in leaf.shape])
        return None if all(new is old for new, old in zip(shape, leaf.shape)) else TensorType(shape, leaf.dtype)

    return map_type(type_, part)


def map_attrs(value: Any, rule: Callable[[Dim], Dim]) -> Any:
    """Attributes, or a value of one, with `rule` applied to every expression in them."""
    if isinstance(value, e.Expr):
        return rule(value)
    if isinstance(value, Attrs):
        return Attrs({key: map_attrs(item, rule) for key, item in value.items()})
    if isinstance(value, tuple):
        return tuple([map_attrs(item, rule) for item in value])
    return value


def fix_sizes(function: Function, shapes: Shapes) -> Function:
    """`function` with the sizes of the parameters named in `shapes` in place of their symbolic dimensions.

    A parameter is named, or numbered by its position. A string leaves a dimension symbolic. Raises ShapeError where a
    parameter cannot have the shape.
    """
    params = {param.name: type_of(param) for param in function.params}
    named = shapes_by_name(shapes, list(params))
    values: dict[Dim, Dim] = {}
    for name, shape in named.items():
        known = params.get(name)
        if not isinstance(known, TensorType) or known.ndim != len(shape):
            what = f"is {known}" if known is not None else f"does not exist; there are {', '.join(params) or 'none'}"
            raise ShapeError(f"the shape {tuple(shape)} is given for the input {name!r}, which {what}")
        values.update({dim: size for dim, size in zip(known.shape, shape) if isinstance(dim, SizeVar)})
    values = {dim: size for dim, size in values.items() if not isinstance(size, str)}
    fixed = map_dims(function, lambda dim: substitute_dims(dim, values)) if values else function
    for param in fixed.params:
        made = type_of(param)
        for wanted, size in zip(named.get(param.name, ()), made.shape if isinstance(made, TensorType) else ()):
            if isinstance(wanted, int) and wanted != size:
                shape = named[param.name]
                raise ShapeError(
                    f"the shape {shape} is given for the input {param.name!r}, which is {params[param.name]}"
                )
    return fixed


def close_dims(function: Function) -> tuple[Function, list[Dim]]:
    """`function` in dimensions of its own, and their values: what a kernel takes as scalars, and the caller passes.

    Before: fn (%p0: Tensor[((H - 1) // 2 + 1, 8)]) { … }
    After:  fn (%p0: Tensor[(n0, 8)]) { … }, [(H - 1) // 2 + 1]

    So kernels compute with plain variables, and calls that differ in their dimensions only share a kernel.
    """
    fresh: dict[Any, SizeVar] = {}

    def rule(dim: Dim) -> Dim:
        if not isinstance(dim, e.Expr) or isinstance(dim, e.Var):
            return dim
        if dim not in fresh:
            fresh[dim] = SizeVar(f"n{len(fresh)}", "int32", size_hint(dim))
        return fresh[dim]

    def attr_rule(dim: Dim) -> Dim:
        return fresh.get(dim, dim)

    for param in function.params:
        for dim in dims_of(type_of(param)):
            rule(dim)
    closed = map_dims(function, attr_rule) if fresh else function
    values = {var: dim for dim, var in fresh.items()}
    return closed, [values.get(var, var) for var in size_vars(closed)]


def fresh_dims(type_: Type, known: dict[Any, SizeVar], name: str) -> Type:
    """`type_` with a size variable of its own for every unknown dimension, and that of `known` for each expression."""

    def rule(dim: Dim) -> Dim:
        if isinstance(dim, int):
            return dim
        if isinstance(dim, e.Expr):
            return known.get(dim, dim)
        return SizeVar(name)

    return map_type_dims(type_, rule)


def substitute_dims(dim: Dim, mapping: dict[Any, Dim]) -> Dim:
    """A dimension with its variables replaced."""
    if not isinstance(dim, e.Expr):
        return dim
    return as_dim(substitute(dim, {var: _expr(value) for var, value in mapping.items()}))


def _expr(value: Dim) -> e.Expr:
    return e.IntImm("int32", value) if isinstance(value, int) else value
