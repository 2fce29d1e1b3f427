"""The table of calls agrees with what the code generator and the builders of `tir/op.py` know."""

from __future__ import annotations

import pytest

from tilewright import tir
from tilewright.codegen.llvm import calls
from tilewright.tir.intrinsics import INTRINSICS


def test_the_code_generator_knows_no_call_that_is_not_listed() -> None:
    assert {*calls._CALLS, *calls._EFFECTS} <= set(INTRINSICS)


@pytest.mark.parametrize(
    "name",
    ["exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "tan", "floor", "ceil", "trunc", "round"],
)
def test_builders_make_valid_calls(name: str) -> None:
    call = getattr(tir, name)(tir.Var("x", "float32x8"))
    assert isinstance(call, tir.Call)
    assert INTRINSICS[call.op].rule(call) is None
    assert INTRINSICS[call.op].arity == len(call.args)
