"""Dead code."""

from tests.relay.helpers import module
from tilewright import relay
from tilewright.relay.transform.simplify.dead_code import dead_code


def test_unused_bindings_go_even_if_they_feed_each_other() -> None:
    x, a, b = relay.var("x", shape=()), relay.var("a"), relay.var("b")
    body = relay.Let(a, relay.exp(x), relay.Let(b, relay.exp(a), x))
    assert dead_code(module(body))["main"].body is x


def test_used_bindings_stay() -> None:
    x, a = relay.var("x", shape=()), relay.var("a")
    mod = module(relay.Let(a, relay.exp(x), a))
    assert dead_code(mod) is mod


def test_fields_of_known_tuples() -> None:
    x, y = relay.var("x", shape=()), relay.var("y", shape=())
    assert dead_code(module(relay.TupleGetItem(relay.Tuple([x, relay.exp(y)]), 0)))["main"].body is x


def test_functions_that_nothing_calls_go() -> None:
    x, y = relay.var("x", shape=()), relay.var("y", shape=())
    used, unused = relay.GlobalVar("used"), relay.GlobalVar("unused")
    main = relay.Function([x], relay.Call(used, [x]))
    identity = relay.Function([y], y)
    mod = dead_code(relay.IRModule({relay.GlobalVar("main"): main, used: identity, unused: identity}))
    assert "used" in mod and "unused" not in mod
