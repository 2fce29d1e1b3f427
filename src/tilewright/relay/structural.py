"""Equality and hashing of graphs by structure: same operators, attributes, types and wiring, whatever the names.

`structural_hash` names a task in the disk cache, so it is the same in every process. The names of variables and the
spans of calls do not count; the contents of constants do.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from tilewright.relay.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from tilewright.relay.visitor import children, post_order


def structural_hash(expr: Expr) -> str:
    """A hex digest of the structure of `expr`; variables count by position (and type), not by name."""
    return hashlib.sha256(repr(structural_key(expr)).encode()).hexdigest()


def structural_equal(a: Expr, b: Expr) -> bool:
    """True if `a` and `b` have the same structure up to the names of variables."""
    return a is b or structural_key(a) == structural_key(b)


def structural_key(expr: Expr) -> tuple[Any, ...]:
    """The structure as nested tuples of plain values: a row per node in order of evaluation, operands by row number."""
    params, root = (expr.params, expr.body) if isinstance(expr, Function) else ((), expr)
    nodes: dict[Expr, None] = dict.fromkeys(params)
    nodes.update(dict.fromkeys(post_order(root)))
    nodes.update({node.var: None for node in list(nodes) if isinstance(node, Let)})
    row = {node: index for index, node in enumerate(nodes)}
    rows = tuple([(*_own(node), tuple([row[kid] for kid in _operands(node)])) for node in nodes])
    return (len(params), attrs_key(expr.attrs), row[root], rows) if isinstance(expr, Function) else rows


def _operands(node: Expr) -> tuple[Expr, ...]:
    return (node.var, *children(node)) if isinstance(node, Let) else children(node)


def array_key(data: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """A value that is equal for arrays of equal dtype, shape and bytes (so -0.0 differs from 0.0)."""
    digest = hashlib.sha256(
        np.ascontiguousarray(data).view(np.uint8).data if data.size and data.ndim else data.tobytes()
    )
    return (str(data.dtype), data.shape, digest.hexdigest())


def _own(node: Expr) -> tuple[Any, ...]:
    """What distinguishes `node` besides its operands."""
    if isinstance(node, Call):
        return ("call", _callee_key(node.op), attrs_key(node.attrs))
    if isinstance(node, Var):
        return ("var", str(node.type_annotation or node.inferred_type))
    if isinstance(node, Constant):
        return ("const", *array_key(node.data))
    if isinstance(node, TupleGetItem):
        return ("field", node.index)
    if isinstance(node, GlobalVar):
        return ("global", node.name)
    if isinstance(node, Function):
        return structural_key(node)
    assert isinstance(node, Tuple | Let | If)
    return (type(node).__name__,)


def _callee_key(op: Any) -> Any:
    if isinstance(op, Function):
        return structural_key(op)
    return f"@{op.name}" if isinstance(op, GlobalVar) else op.name


def attrs_key(attrs: Any) -> tuple[Any, ...]:
    """Attributes by name, in text: `repr` tells 1, 1.0 and True apart."""
    return tuple(sorted((key, repr(value)) for key, value in attrs.items()))
