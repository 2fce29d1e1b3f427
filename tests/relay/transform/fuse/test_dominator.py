"""Immediate post-dominators of a dataflow graph."""

import numpy as np

from tests.relay.helpers import module
from tilewright import relay
from tilewright.relay.ir.registry import OpPattern
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.transform.fuse.dominator import Flow, build_flow


def _flow(body: relay.Expr) -> Flow:
    body = module(body)["main"].body
    return build_flow(post_order(body), body)


def test_paths_meet_at_the_dominator_with_the_widest_pattern_on_the_way() -> None:
    x = relay.var("x", shape=(4, 4))
    a = relay.exp(x)
    b, c = relay.sum(a, axis=0, keepdims=True), relay.sqrt(a)
    d = relay.add(b, c)
    flow = _flow(d)
    assert flow.dominator[a] is d and flow.path_pattern[a] == OpPattern.COMM_REDUCE
    assert flow.dominator[c] is d and flow.path_pattern[c] == OpPattern.ELEMWISE
    assert flow.path_pattern[b] == OpPattern.BROADCAST
    assert flow.dominator[d] is None


def test_tuples_are_looked_through_and_results_have_no_dominator() -> None:
    x = relay.var("x", shape=(4,))
    a = relay.exp(x)
    b = relay.concatenate([a, x])
    assert _flow(b).dominator[a] is b
    assert _flow(relay.Tuple([a, b])).dominator[a] is None


def test_random_graphs_against_the_definition() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        values: list[relay.Expr] = [relay.var("x", shape=(2,))]
        for _ in range(12):
            values.append(relay.add(*[values[i] for i in rng.integers(0, len(values), 2)]))
        flow = _flow(values[-1])
        for call in flow.order:
            assert flow.dominator[call] is _by_definition(flow, call)


def _by_definition(flow: Flow, call: relay.Call) -> relay.Call | None:
    """The first later call without which the result cannot be reached from `call`."""
    for candidate in flow.order[flow.position[call] + 1 :]:
        seen, stack = {candidate, call}, [call]
        escaped = False
        while stack:
            for user in flow.users[stack.pop()]:
                escaped |= user is None
                if user is not None and user not in seen:
                    seen.add(user)
                    stack.append(user)
        if not escaped:
            return candidate
    return None
