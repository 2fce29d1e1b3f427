"""Rewriting by patterns.

class FuseBias(DFPatternCallback):
    def __init__(self):
        super().__init__()
        self.x, self.bias = wildcard(), is_constant()
        self.pattern = is_op("add")(self.x, self.bias)

    def callback(self, pre, post, node_map):
        return relay.nn.bias_add(node_map[self.x][0], node_map[self.bias][0])

rewrite(FuseBias(), expr)
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import InputError
from tilewright.relay.dataflow_pattern.matcher import NodeMap, find, parts, users_of
from tilewright.relay.dataflow_pattern.pattern import DFPattern, DominatorPattern
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children, post_order, rebuild, substitute

#: A rewrite that has not come to rest after so many rounds never will.
MOST_ROUNDS = 100


class DFPatternCallback:
    """A pattern and what to replace its matches by. Set `pattern` before use.

    `require_type` has the types known before `callback` is asked; `rewrite_once` goes through the graph once only.
    """

    pattern: DFPattern

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
        """The replacement of `post`, the node that matched; `pre` is that node before its operands were rewritten.

        `node_map` has for each part of the pattern the nodes that it matched. Return `post` to leave it.
        """
        raise NotImplementedError

    def rewrite(self, expr: Expr) -> Expr:
        """`expr` rewritten by this callback alone."""
        return rewrite(self, expr)


def rewrite(callbacks: DFPatternCallback | Sequence[DFPatternCallback], expr: Expr) -> Expr:
    """`expr` with what the patterns match replaced, operands first, again and again until nothing changes.

    Raises InputError for a callback whose result matches its own pattern for ever.
    """
    listed = [callbacks] if isinstance(callbacks, DFPatternCallback) else list(callbacks)
    for _ in range(MOST_ROUNDS):
        before = expr
        for callback in listed:
            expr = _once(callback, expr)
        if expr is before:
            return expr
        listed = [callback for callback in listed if not callback.rewrite_once]
    names = ", ".join(type(callback).__name__ for callback in listed)
    raise InputError(f"{names} always matches its own result; return post where nothing is left to do")


def _once(callback: DFPatternCallback, root: Expr) -> Expr:
    if any(isinstance(part, DominatorPattern) for part in parts(callback.pattern)):
        return _first(callback, root)
    done: dict[Expr, Expr] = {}
    for node in post_order(root):
        fresh = rebuild(node, tuple([done[kid] for kid in children(node)]))
        done[node] = _replaced(callback, node, fresh, find(callback.pattern, fresh, {}))
    return done[root]


def _first(callback: DFPatternCallback, root: Expr) -> Expr:
    """One replacement at a time, for a dominator looks at the users of nodes, which each replacement changes."""
    users = users_of(callback.pattern, root)
    for node in post_order(root):
        replacement = _replaced(callback, node, node, find(callback.pattern, node, users))
        if replacement is not node:
            return substitute(root, {node: replacement})
    return root


def _replaced(callback: DFPatternCallback, pre: Expr, post: Expr, found: NodeMap | None) -> Expr:
    if found is None:
        return post
    if callback.require_type:
        type_of(pre)
        type_of(post)
    return callback.callback(pre, post, found)
