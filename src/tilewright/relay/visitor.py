"""Walking and rewriting graphs, without recursion: networks are thousands of calls deep.

A `Function` inside an expression (a fused kernel that a call calls) is closed, so walkers treat it as a leaf; passes
reach functions through `IRModule.map_functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tilewright.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Tuple,
    TupleGetItem,
    Var,
)

Children = tuple[Expr, ...]

_CHILDREN: dict[type, Callable[..., Children]] = {
    Var: lambda e: (),
    Constant: lambda e: (),
    GlobalVar: lambda e: (),
    Function: lambda e: (),
    Tuple: lambda e: e.fields,
    TupleGetItem: lambda e: (e.tuple_value,),
    Call: lambda e: e.args,
    Let: lambda e: (e.value, e.body),
    If: lambda e: (e.cond, e.true_branch, e.false_branch),
}

_REBUILD: dict[type, Callable[..., Expr]] = {
    Tuple: lambda e, kids: Tuple(kids),
    TupleGetItem: lambda e, kids: TupleGetItem(kids[0], e.index),
    Call: lambda e, kids: Call(e.op, kids, e.attrs, e.span),
    Let: lambda e, kids: Let(e.var, *kids),
    If: lambda e, kids: If(*kids),
}


def children(expr: Expr) -> Children:
    """The operands of `expr`, in order of evaluation. Functions and variables have none."""
    return _CHILDREN[type(expr)](expr)


def rebuild(expr: Expr, kids: Children) -> Expr:
    """`expr` with other operands; the same object if they are all the same objects."""
    if all(new is old for new, old in zip(kids, children(expr), strict=True)):
        return expr
    return _REBUILD[type(expr)](expr, kids)


def post_order(*roots: Expr) -> list[Expr]:
    """Every node reachable from `roots`, each once, operands before users, in a deterministic order."""
    order: list[Expr] = []
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend([(kid, False) for kid in reversed(children(node)) if kid not in seen])
    return order


def calls(*roots: Expr) -> list[Call]:
    """The calls among `post_order(*roots)`."""
    return [node for node in post_order(*roots) if type(node) is Call]


def rewrite(root: Expr, rule: Callable[[Expr], Expr | None], memo: dict[Expr, Expr] | None = None) -> Expr:
    """Rebuild `root` bottom up: each node gets its rewritten operands and is then given to `rule`.

    `rule` returns a replacement (not visited again) or None for no change. Unchanged parts stay the same objects.
    `memo` maps old nodes to new ones; pass a dict to seed or to read the mapping.
    """
    done = {} if memo is None else memo
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        kids = children(node)
        if not ready and kids:
            stack.append((node, True))
            stack.extend([(kid, False) for kid in reversed(kids) if kid not in done])
            continue
        fresh = rebuild(node, tuple([done[kid] for kid in kids])) if kids else node
        replacement = rule(fresh)
        done[node] = fresh if replacement is None else replacement
    return done[root]


def substitute(root: Expr, mapping: Mapping[Expr, Expr]) -> Expr:
    """`root` with the nodes of `mapping` (usually variables) replaced."""
    return rewrite(root, lambda node: None, dict(mapping))


def free_vars(*roots: Expr) -> list[Var]:
    """Variables that no `Let` in `roots` binds, in order of first use."""
    nodes = post_order(*roots)
    bound = {node.var for node in nodes if isinstance(node, Let)}
    return [node for node in nodes if isinstance(node, Var) and node not in bound]


def consumers(nodes: Iterable[Expr]) -> dict[Expr, list[Expr]]:
    """For each node the distinct nodes among `nodes` that use it, in order; an empty list for a result."""
    users: dict[Expr, list[Expr]] = {}
    for node in nodes:
        users.setdefault(node, [])
        for kid in dict.fromkeys(children(node)):
            users.setdefault(kid, []).append(node)
    return users
