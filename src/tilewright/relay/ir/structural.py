"""Equality and hashing of graphs by structure: same operators, attributes, types and wiring, whatever the names.

`structural_hash` names a task in the disk cache, so it is the same in every process. The names of variables and the
spans of calls do not count; the contents of constants do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.relay.ir.adt import (
    Constructor,
    Match,
    Pattern,
    TypeData,
)
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, GlobalVar, Let, Tuple, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import FuncType, IncompleteType, TensorType, Type, TypeCall, TypeVar, parts
from tilewright.relay.ir.visitor import binders, children, post_order
from tilewright.support.recursion import nested
from tilewright.tir.expr import SizeVar
from tilewright.tir.visitor import collect_vars, substitute


def structural_hash(root: Expr | IRModule) -> str:
    """A hex digest of the structure of `root`; variables count by position (and type), not by name."""
    return hashlib.sha256(repr(structural_key(root)).encode()).hexdigest()


def structural_equal(a: Expr | IRModule, b: Expr | IRModule) -> bool:
    """True if `a` and `b` have the same structure up to the names of variables, type parameters and dimensions.

    Free variables are equal if they have the same type and come in the same order. Functions of a module and data
    types count by name. Constants and empty tuples are values: it does not matter whether equal ones
    are one object.
    """
    return a is b or structural_key(a) == structural_key(b)


def structural_key(root: Expr | IRModule, inferred: bool = False) -> tuple[Any, ...]:
    """The structure as nested tuples of plain values: a row per node in order of evaluation, operands by row number.

    With `inferred` a variable that a `Let` or a pattern of an expression binds has the type inferred of it where none
    is declared.
    """
    if not isinstance(root, IRModule):
        return _key(root, _TypeTexts(inferred))
    functions = [(gvar.name, _key(func, _TypeTexts())) for gvar, func in root.functions.items()]
    definitions = [_definition_key(data) for data in root.type_definitions.values()]
    return (tuple(sorted(functions, key=lambda item: item[0])), tuple(sorted(definitions)))


def _key(expr: Expr, types: _TypeTexts) -> tuple[Any, ...]:
    params, root = (expr.params, expr.body) if isinstance(expr, Function) else ((), expr)
    nodes: dict[Expr, None] = dict.fromkeys(params)
    nodes.update(dict.fromkeys(post_order(root)))
    nodes.update({var: None for node in list(nodes) for var in binders(node)})
    bound = {var for node in nodes if isinstance(node, Let | Match) for var in binders(node)}
    own: dict[Expr, tuple[Any, ...]] = {}
    row: dict[Expr, int] = {}
    constants: dict[tuple[Any, ...], Expr] = {}
    for node in nodes:
        found = _binding(node, types) if node in bound else _own(node, types)
        is_value = isinstance(node, Constant) or (isinstance(node, Tuple) and not node.fields)
        first = constants.setdefault(found, node) if is_value else node
        if first is not node:
            row[node] = row[first]
        else:
            row[node] = len(own)
            own[node] = found
    rows = tuple(
        [(*found, tuple([row[kid] for kid in (*binders(node), *children(node))])) for node, found in own.items()]
    )
    return (len(params), attrs_key(expr.attrs), row[root], rows) if isinstance(expr, Function) else rows


class _TypeTexts:
    """Types as text, their variables and dimensions numbered as they are met: names do not count."""

    def __init__(self, inferred: bool = False) -> None:
        self.inferred = inferred
        self._numbers: dict[TypeVar, str] = {}
        self._dims: dict[Any, Any] = {}

    def text(self, type_: Type | None) -> str:
        """Equal for types that are equal up to names."""
        if isinstance(type_, TypeVar):
            return self._numbers.setdefault(type_, f"'{len(self._numbers)}")
        if isinstance(type_, TensorType):
            return str(type_ if type_.is_static else TensorType([self._dim(dim) for dim in type_.shape], type_.dtype))
        if type_ is None or not (kids := parts(type_)):
            return str(type_)
        head = str(type_.func) if isinstance(type_, TypeCall) else type(type_).__name__
        count = len(type_.type_params) if isinstance(type_, FuncType) else 0
        return f"{head}[{count}]({', '.join(map(self.text, kids))})"

    def _dim(self, dim: Any) -> Any:
        if type(dim) in (int, AnyDim):
            return dim
        for var in collect_vars(dim):
            self._dims.setdefault(var, SizeVar(f"d{len(self._dims)}", var.dtype))
        return substitute(dim, self._dims)


def array_key(data: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """A value that is equal for arrays of equal dtype, shape and bytes (so -0.0 differs from 0.0)."""
    if data.dtype.hasobject:  # texts: their bytes, not the addresses of the objects
        read: Any = json.dumps(data.tolist()).encode()
    else:
        read = np.ascontiguousarray(data).view(np.uint8).data if data.size and data.ndim else data.tobytes()
    return (str(data.dtype), data.shape, hashlib.sha256(read).hexdigest())


def _own(node: Expr, types: _TypeTexts) -> tuple[Any, ...]:
    """The part of `node` besides its operands and the variables it binds: its class and its plain fields."""
    make = _OWN.get(type(node))
    if make is not None:
        return make(node, types)
    return (type(node).__name__, *[_plain(value, types) for _, value in node.plain_fields()])


@nested
def _plain(value: Any, types: _TypeTexts) -> Any:
    if isinstance(value, np.ndarray):
        return array_key(value)
    if isinstance(value, tuple):
        return tuple([_plain(item, types) for item in value])
    return types.text(value) if isinstance(value, Type) else value


def _binding(var: Expr, types: _TypeTexts) -> tuple[Any, ...]:
    """A variable that a `Let` or a pattern binds: its type is that of its value, so only what is declared counts."""
    assert isinstance(var, Var)
    return ("var", types.text(_declared(var) or (var.inferred_type if types.inferred else None)))


def _declared(var: Var) -> Type | None:
    """The type that a program declares for `var`; `_` says nothing."""
    return None if isinstance(var.type_annotation, IncompleteType) else var.type_annotation


def _function_row(node: Function, types: _TypeTexts) -> tuple[Any, ...]:
    if node.is_primitive:
        return _key(node, types)
    return ("fn", len(node.params), attrs_key(node.attrs), len(node.type_params))


def _callee_key(op: Any, types: _TypeTexts) -> Any:
    """The callee if it is a name or a fused function; any other is an operand."""
    if isinstance(op, Function):
        return _key(op, types) if op.is_primitive else None
    if isinstance(op, GlobalVar):
        return f"@{op.name}"
    if isinstance(op, Constructor):
        return f"{op.belong_to}.{op.name}"
    return None if isinstance(op, Expr) else op.name


def _pattern_key(pattern: Pattern) -> Any:
    named = [f"{value.belong_to}.{value.name}" for _, value in pattern.plain_fields()]
    return (type(pattern).__name__, *named, *map(_pattern_key, pattern.operands()))


def _definition_key(data: TypeData) -> tuple[Any, ...]:
    types = _TypeTexts()
    params = [types.text(var) for var in data.type_vars]
    fields = [(c.name, tuple([types.text(field) for field in c.inputs])) for c in data.constructors]
    return (data.header.name, len(params), tuple(fields))


#: Classes that are alike by more, or less, than their fields.
_OWN: dict[type, Callable[..., tuple[Any, ...]]] = {
    Call: lambda node, types: ("call", _callee_key(node.op, types), attrs_key(node.attrs)),
    Var: lambda node, types: ("var", types.text(_declared(node) or node.inferred_type)),
    Constructor: lambda node, types: ("constructor", f"{node.belong_to}.{node.name}"),
    Function: _function_row,
    Match: lambda node, types: ("match", node.complete, tuple([_pattern_key(c.lhs) for c in node.clauses])),
}


def attrs_key(attrs: Any) -> tuple[Any, ...]:
    """Attributes by name, in text: `repr` tells 1, 1.0 and True apart."""
    return tuple(sorted((key, repr(value)) for key, value in attrs.items()))
