"""Walking and rewriting, deep graphs included."""

from tilewright import relay
from tilewright.relay.ir.visitor import (
    binders,
    bound_vars,
    calls,
    children,
    consumers,
    free_vars,
    global_vars,
    post_order,
    rewrite,
    substitute,
)

DEPTH = 5000


def _chain() -> tuple[relay.Var, relay.Expr]:
    x = relay.var("x", shape=(2,))
    node: relay.Expr = x
    for _ in range(DEPTH):
        node = relay.add(node, node)
    return x, node


def test_each_node_once_and_operands_first() -> None:
    x, root = _chain()
    order = post_order(root)
    assert len(order) == DEPTH + 1 and order[0] is x and order[-1] is root
    assert len(calls(root)) == DEPTH


def test_rewrite_keeps_what_does_not_change() -> None:
    x, root = _chain()
    assert rewrite(root, lambda node: None) is root
    y = relay.var("y", shape=(2,))
    changed = substitute(root, {x: y})
    assert changed is not root and free_vars(changed) == [y]


def test_rule_sees_rewritten_operands_and_sharing_survives() -> None:
    x = relay.var("x", shape=(2,))
    shared = relay.exp(x)
    root = relay.add(shared, shared)
    seen: list[relay.Expr] = []

    def rule(node: relay.Expr) -> relay.Expr | None:
        seen.append(node)
        return relay.sqrt(x) if node is shared else None

    changed = rewrite(root, rule)
    assert isinstance(changed, relay.Call) and changed.args[0] is changed.args[1]
    assert seen[-1] is changed


def test_free_vars_leave_out_bound_ones() -> None:
    x, y = relay.var("x", shape=()), relay.var("y")
    assert free_vars(relay.Let(y, x, relay.add(y, x))) == [x]


def test_consumers_are_distinct_users() -> None:
    x = relay.var("x", shape=(2,))
    a = relay.add(x, x)
    b = relay.multiply(a, x)
    users = consumers(post_order(b))
    assert users[x] == [a, b] and users[a] == [b] and users[b] == []


def closure() -> tuple[relay.Var, relay.Var, relay.Function, relay.Expr]:
    """`let f = fn (y) { x + y }; f(x)`."""
    x, y, f = relay.var("x", shape=(2,)), relay.var("y", shape=(2,)), relay.var("f")
    func = relay.Function([y], relay.add(x, y))
    return x, y, func, relay.Let(f, func, relay.Call(f, [x]))


def test_closures_are_walked_and_rewritten() -> None:
    x, y, func, root = closure()
    order = post_order(root)
    assert order.index(func.body) < order.index(func) and y in order
    assert free_vars(root) == [x] and bound_vars(root) == [y, root.var]  # type: ignore[attr-defined]
    z = relay.var("z", shape=(2,))
    changed = substitute(root, {x: z})
    assert free_vars(changed) == [z]
    inner = changed.value  # type: ignore[attr-defined]
    assert inner.params == (y,) and inner.body.args == (z, y)


def test_fused_functions_are_leaves() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    fused = relay.Function([y], relay.exp(y), attrs={"Primitive": 1})
    call = relay.Call(fused, [x])
    assert children(call) == (x,) and post_order(call) == [x, call] and children(fused) == ()


def test_callees_that_are_values_are_operands() -> None:
    x, f = relay.var("x"), relay.var("f")
    name = relay.GlobalVar("g")
    assert children(relay.Call(f, [x])) == (f, x) and children(relay.Call(name, [x])) == (x,)
    assert substitute(relay.Call(f, [x]), {f: name}).op is name  # type: ignore[attr-defined]
    assert global_vars(relay.Tuple([relay.Call(name, [x]), name])) == [name]


def test_match_and_references_are_walked() -> None:
    x, a, b = relay.var("x"), relay.var("a"), relay.var("b")
    pattern = relay.PatternTuple([relay.PatternVar(a), relay.PatternTuple([relay.PatternVar(b)])])
    match = relay.Match(relay.RefRead(x), [relay.Clause(pattern, relay.RefWrite(x, a))], complete=False)
    assert binders(match) == (a, b) and free_vars(match) == [x]
    y = relay.var("y")
    changed = substitute(match, {x: y})
    assert isinstance(changed, relay.Match) and not changed.complete and changed.clauses[0].lhs is pattern
    assert free_vars(relay.RefCreate(changed)) == [y]
