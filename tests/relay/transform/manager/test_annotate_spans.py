"""Calls named after their positions in the text."""

from __future__ import annotations

from tests.relay.helpers import module
from tilewright import relay
from tilewright.relay.ir.printer import astext
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.manager.annotate_spans import annotate_spans


def test_the_span_is_where_the_call_stands() -> None:
    x = relay.var("x", shape=(2,))
    named = relay.Call(relay.exp(x).op, [x], span="Exp_1")
    mod = module(relay.add(relay.If(relay.const(True), named, relay.tanh(x)), relay.sqrt(x)))
    after = annotate_spans(mod)
    assert relay.structural_equal(mod, after)
    lines = astext(mod).split("\n")
    for call in calls(after["main"].body):
        if call.op.name == "exp":  # type: ignore[union-attr]
            assert call.span == "Exp_1"
        else:
            source, line, column = call.span.split(":")
            assert source == "GeneratedSource"
            assert lines[int(line) - 1][int(column) - 1 :].startswith(f"{call.op.name}(")  # type: ignore[union-attr]
