"""The region of a function that computes each of its values, and their order.

A function body, a branch of an `If`, a clause of a `Match` is a *scope*: its values are computed when control gets
there.
A value that several scopes use belongs to the innermost scope around all of them:

    %a = f(%x); if (%c) { g(%a) } else { h(%x) }         scope of the function: %c; the branches: [%a, g(%a)], [h(%x)]

Within a scope the order is that of a post-order walk, which is also the order of effects on references.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright.relay.ir.adt import Constructor, Match
from tilewright.relay.ir.expr import Constant, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from tilewright.relay.ir.nesting import innermost_around
from tilewright.relay.ir.visitor import children, post_order
from tilewright.relay.transform.simplify.make import is_call


@dataclass(eq=False)
class Scope:
    """A region: the nodes it computes in order, its result, the scope around it and the node there that opens it.

    The last two are None for a function's body.
    """

    result: Expr
    parent: Scope | None
    opener: Expr | None
    depth: int
    nodes: list[Expr] = field(default_factory=list)


@dataclass(eq=False)
class Scopes:
    """All scopes of one function. `of[node]` is where a node is computed; `inner[node]` are the scopes it opens."""

    top: Scope
    of: dict[Expr, Scope]
    inner: dict[Expr, tuple[Scope, ...]]
    #: What a variable bound by `Let` stands for.
    alias: dict[Var, Expr]
    #: Fields of tuples that no node names, made when they are needed.
    fields: dict[Expr, list[TupleGetItem]] = field(default_factory=dict)

    def value(self, node: Expr) -> Expr:
        """The node whose value `node` has.

        `Let`, variables of `Let`, fields of a `Tuple` and marks of devices are looked through.
        """
        while True:
            if isinstance(node, Let):
                node = node.body
            elif isinstance(node, Var) and node in self.alias:
                node = self.alias[node]
            elif isinstance(node, TupleGetItem) and isinstance(whole := self.value(node.tuple_value), Tuple):
                node = whole.fields[node.index]
            elif is_device_mark(node):
                (node,) = children(node)
            else:
                return node


def find_scopes(body: Expr) -> Scopes:
    """The scopes of a function with the body `body`."""
    order = post_order(body, operands=_operands)
    top = Scope(body, None, None, 0)
    scopes = Scopes(top, {body: top}, {}, {})
    for node in reversed(order):
        home = scopes.of[node]
        if isinstance(node, Let):
            scopes.alias[node.var] = node.value
        for kid, opens in operands(node):
            position = home
            if opens:
                position = Scope(kid, home, node, home.depth + 1)
                scopes.inner[node] = (*scopes.inner.get(node, ()), position)
            scopes.of[kid] = position if kid not in scopes.of else innermost_around(scopes.of[kid], position)
    for node in order:
        if not isinstance(node, Var | Let | Constant | Constructor | GlobalVar) and not is_device_mark(node):
            scopes.of[node].nodes.append(node)
    return scopes


def is_device_mark(node: Expr) -> bool:
    """True for a call that says where values are, and computes nothing."""
    return is_call(node, "on_device", "device_copy")


def operands(node: Expr) -> Iterator[tuple[Expr, bool]]:
    """The operands of `node`; True with those that are a scope of their own. The body of a closure is none."""
    if isinstance(node, If):
        yield node.cond, False
        yield node.true_branch, True
        yield node.false_branch, True
    elif isinstance(node, Match):
        yield node.data, False
        for clause in node.clauses:
            yield clause.rhs, True
    elif not isinstance(node, Function):
        for kid in children(node):
            yield kid, False


def _operands(node: Expr) -> list[Expr]:
    return [kid for kid, _ in operands(node)]
