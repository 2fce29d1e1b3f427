"""Walking and rewriting graphs, without recursion: networks are thousands of calls deep.

One rule for functions inside an expression: a fused function (`Function.is_primitive`) is a leaf, as an operator is;
any other is walked like an operand, body included, since it may use variables from around it. A pass that must treat
the body as a region of its own (it runs when the function is called, or never) looks at `Function` nodes itself, as
it looks at the branches of `If` and `Match`. Passes reach the functions of a module through `IRModule.map_functions`.

What a node's operands are is declared with it (`node.py`); the variables that it binds are not among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tilewright.relay.ir.expr import Call, Expr, GlobalVar, Var

Children = tuple[Expr, ...]


def children(expr: Expr) -> Children:
    """The operands of `expr`, in order of evaluation: for a call its callee first, unless that is a mere name."""
    return expr.operands()


def binders(expr: Expr) -> tuple[Var, ...]:
    """The variables that `expr` binds: parameters, the variable of a `Let`, those of the patterns of a `Match`."""
    return expr.bound()


def rebuild(expr: Expr, kids: Children) -> Expr:
    """`expr` with other operands; the same object if they are all the same objects."""
    if all(new is old for new, old in zip(kids, children(expr), strict=True)):
        return expr
    rebuilt: Expr = expr.with_operands(kids)
    return rebuilt


def post_order(*roots: Expr, operands: Callable[[Expr], Sequence[Expr]] = children) -> list[Expr]:
    """Every node reachable from `roots` through `operands`, each once, before its users, in a fixed order."""
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
            stack.extend([(kid, False) for kid in reversed(operands(node)) if kid not in seen])
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
    """Variables that nothing in `roots` binds, in order of first use. A root that is a function binds its params."""
    nodes = post_order(*roots)
    bound = {var for node in nodes for var in binders(node)}
    return [node for node in nodes if type(node) is Var and node not in bound]


def bound_vars(*roots: Expr) -> list[Var]:
    """Variables that `roots` bind, each once, whether used or not."""
    return list(dict.fromkeys([var for node in post_order(*roots) for var in binders(node)]))


def all_vars(*roots: Expr) -> list[Var]:
    """The free and the bound variables of `roots`, each once."""
    return list(dict.fromkeys([*free_vars(*roots), *bound_vars(*roots)]))


def global_vars(*roots: Expr) -> list[GlobalVar]:
    """The functions of the module that `roots` name, called or passed on, each once."""
    nodes = post_order(*roots)
    named = [node.op if type(node) is Call and type(node.op) is GlobalVar else node for node in nodes]
    return list(dict.fromkeys([node for node in named if type(node) is GlobalVar]))


def consumers(nodes: Iterable[Expr]) -> dict[Expr, list[Expr]]:
    """For each node the distinct nodes among `nodes` that use it, in order; an empty list for a result."""
    users: dict[Expr, list[Expr]] = {}
    for node in nodes:
        users.setdefault(node, [])
        for kid in dict.fromkeys(children(node)):
            users.setdefault(kid, []).append(node)
    return users
