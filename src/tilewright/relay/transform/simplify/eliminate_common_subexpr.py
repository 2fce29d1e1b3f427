"""Common subexpressions: calls of one operator with the same attributes and arguments become one call.

Before: add(nn.relu(%x), nn.relu(%x))     (two relu nodes)
After:  %0 = nn.relu(%x); add(%0, %0)

Small constants of equal content are merged too, so that what is built on them can be.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.structural import array_key, attrs_key
from tilewright.relay.ir.visitor import rewrite

#: Constants up to this many bytes are compared by content; larger ones (weights) by identity.
CONSTANT_LIMIT = 4096


def eliminate_common_subexpr(mod: IRModule, fskip: Callable[[Expr], bool] | None = None) -> IRModule:
    """Merge equal calls, tuples, fields and small constants within each function.

    All operators are pure but those on storage. Calls and fields for which `fskip` is true stay as they are.
    """

    def transform(root: Expr) -> Expr:
        first: dict[Hashable, Expr] = {}

        def rule(node: Expr) -> Expr | None:
            key = _key(node)
            if fskip is not None and isinstance(node, Call | TupleGetItem) and fskip(node):
                return None
            return None if key is None else first.setdefault(key, node)

        return rewrite(root, rule)

    return mod.map_functions(lambda func: func.with_body(transform(func.body)))


def _key(node: Expr) -> Hashable | None:
    """A value that is equal for nodes of equal value; operands were merged already, so they compare by identity."""
    if isinstance(node, Call) and isinstance(node.op, Op):
        return None if node.op.effects else (node.op, attrs_key(node.attrs), node.args)
    if isinstance(node, Constant) and node.data.nbytes <= CONSTANT_LIMIT:
        return array_key(node.data)
    if isinstance(node, Tuple):
        return node.fields
    if isinstance(node, TupleGetItem):
        return (TupleGetItem, node.tuple_value, node.index)
    return None
