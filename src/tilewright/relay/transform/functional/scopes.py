"""Scopes of a graph: where each value is computed, and bindings placed there. What the normal forms share.

A graph is evaluated region by region: the body of a function, each branch of an `If`, each clause of a `Match`. A node
that several regions use is computed in the innermost region around all its uses. `bind_in_scopes` writes that down with
`Let`s: each node that `wanted` picks gets a variable, bound in its region, in order of evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tilewright.relay.ir.adt import Constructor, Match
from tilewright.relay.ir.expr import (
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Var,
)
from tilewright.relay.ir.nesting import innermost_around
from tilewright.relay.ir.visitor import children, post_order, rebuild


@dataclass(eq=False)
class Scope:
    """A region: the one around it, and the bindings written in it so far."""

    parent: Scope | None
    depth: int = 0
    bindings: list[tuple[Var, Expr]] = field(default_factory=list)

    def close(self, body: Expr) -> Expr:
        """`body` below the bindings of the scope."""
        for var, value in reversed(self.bindings):
            body = Let(var, value, body)
        return body


@dataclass
class Scopes:
    """The scope of each node, and of each operand that opens one, by its owner and position."""

    of: dict[Expr, Scope] = field(default_factory=dict)
    opened: dict[tuple[Expr, int], Scope] = field(default_factory=dict)
    root: Scope = field(default_factory=lambda: Scope(None))


def find_scopes(root: Expr) -> Scopes:
    """The scopes of all nodes of `root`, an expression or the body of a function."""
    scopes = Scopes()
    scopes.of[root] = scopes.root
    for node in reversed(post_order(root)):
        own = scopes.of[node]
        for index, kid in enumerate(children(node)):
            used_in = own
            if opens_scope(node, index):
                used_in = scopes.opened[node, index] = Scope(own, own.depth + 1)
            scopes.of[kid] = innermost_around(scopes.of[kid], used_in) if kid in scopes.of else used_in
    return scopes


def opens_scope(node: Expr, index: int) -> bool:
    """True if operand `index` of `node` is evaluated later or never: a function's body, a branch, a clause."""
    if isinstance(node, Function):
        return True
    return isinstance(node, If | Match) and index > 0


def is_atomic(expr: Expr) -> bool:
    """True for what needs no computing: variables, constants, names of functions."""
    return isinstance(expr, Var | Constant | GlobalVar | Constructor)


def evaluation_order(root: Expr) -> Iterator[tuple[Expr, bool]]:
    """Each node once, operands first, with False; a `Let` also with True, when its value is known and its body not."""
    seen: set[Expr] = set()
    stack: list[tuple[Expr, int]] = [(root, 0)]
    while stack:
        node, step = stack.pop()
        if step == 0:
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, Let):
                stack += [(node, 1), (node.value, 0)]
            else:
                stack.append((node, 2))
                stack.extend([(kid, 0) for kid in reversed(children(node)) if kid not in seen])
        elif step == 1:
            assert isinstance(node, Let)
            yield node, True
            stack += [(node, 2), (node.body, 0)]
        else:
            yield node, False


def bind_in_scopes(root: Expr, wanted: Callable[[Expr, Scopes], bool]) -> Expr:
    """`root` with every node that `wanted` picks, and what `Let`s bound already, bound to a variable in its scope."""
    scopes = find_scopes(root)
    named = {_result(node.value): node.var for node in reversed(list(scopes.of)) if isinstance(node, Let)}
    named = {value: var for value, var in named.items() if not is_atomic(value)}
    done: dict[Expr, Expr] = {}
    count = 0
    for node, binds in evaluation_order(root):
        assert isinstance(node, Let) or not binds
        if binds and isinstance(node, Let):
            if named.get(_result(node.value)) is not node.var:
                scopes.of[node].bindings.append((node.var, done[node.value]))
        elif isinstance(node, Let):
            done[node] = done[node.body]
        else:
            done[node] = _rebuilt(node, scopes, done)
            if node in named or wanted(node, scopes):
                var = named.get(node) or Var(f"x{count}")
                count += node not in named
                scopes.of[node].bindings.append((var, done[node]))
                done[node] = var
    return scopes.root.close(done[root])


def _result(expr: Expr) -> Expr:
    """The result of `expr` below its bindings."""
    while isinstance(expr, Let):
        expr = expr.body
    return expr


def _rebuilt(node: Expr, scopes: Scopes, done: dict[Expr, Expr]) -> Expr:
    kids = [
        scopes.opened[node, index].close(done[kid]) if opens_scope(node, index) else done[kid]
        for index, kid in enumerate(children(node))
    ]
    return rebuild(node, tuple(kids))
