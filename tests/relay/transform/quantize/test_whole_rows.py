"""Rows of dense layers of bytes, with zeros up to whole copies."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import relay
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.quantize.whole_rows import whole_rows

RNG = np.random.default_rng(4)


@pytest.mark.parametrize(("terms", "stored"), [(45, 48), (32, 32), (650, 656), (12, 12)])
def test_results_are_the_same_and_rows_are_whole(terms: int, stored: int) -> None:
    weight = RNG.integers(-128, 128, (7, terms)).astype("int8")
    x = relay.var("x", shape=(3, terms), dtype="int8")
    body = relay.nn.dense(x, relay.const(weight), out_dtype="int32")
    mod = whole_rows(relay.IRModule.from_expr(relay.Function([x], body)))
    (dense,) = [call for call in calls(mod["main"].body) if call.op.name == "nn.dense"]
    assert [arg.checked_type.shape[-1] for arg in dense.args] == [stored, stored]
    values = RNG.integers(-128, 128, (3, terms)).astype("int8")
    (found,) = interpret(mod["main"], [values])
    np.testing.assert_array_equal(found, values.astype("int32") @ weight.astype("int32").T)
