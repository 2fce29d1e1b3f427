"""Walking and rewriting, deep graphs included."""

from tilewright import relay
from tilewright.relay.visitor import calls, consumers, free_vars, post_order, rewrite, substitute

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
