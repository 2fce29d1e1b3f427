"""Passes over elements: the vectors of a thread stay within what the target has."""

from __future__ import annotations

import pytest

from tilewright import relay
from tilewright.driver.lower import lowering_stages
from tilewright.relay.transform.fuse.fuse_ops import fuse_ops
from tilewright.target import Target
from tilewright.tir.expr import BufferLoad
from tilewright.tir.stmt import BufferStore
from tilewright.tir.visitor import collect


@pytest.mark.parametrize(("target", "lanes"), [("opencl", 4), ("cuda -arch=sm_80", 16)])
def test_vectors_are_as_wide_as_what_they_are_computed_from_allows(target: str, lanes: int) -> None:
    x = relay.var("x", shape=(64, 1 << 16))
    body = relay.cast(relay.clip(relay.round(relay.multiply(x, relay.const(8.0))), -128.0, 127.0), "int8")
    mod = relay.transform.infer_type(fuse_ops(relay.IRModule.from_expr(relay.Function([x], body))))
    *_, (_, func) = lowering_stages(mod["main"].body.op, "quantize", Target(target))  # raises where one is too wide
    accesses = collect(func.body, BufferLoad, BufferStore)  # type: ignore[arg-type]
    assert {x.value.dtype.lanes for x in accesses if isinstance(x, BufferStore)} == {lanes}
