"""Functions in continuation-passing style that return again."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.relay.programs import Programs
from tilewright import relay
from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.transform.functional.to_cps import to_cps
from tilewright.relay.transform.functional.un_cps import un_cps

TEXT = """
def @main(%x: float32) -> float32 {
  let %f = fn (%y: float32) -> float32 { if (%y < 1f) { exp(%y) } else { %y * 2f } };
  %f(%x) + %f(3f)
}
"""


def test_there_and_back() -> None:
    mod = infer_type(relay.parse(TEXT))
    cps = to_cps(mod)
    back = un_cps(cps["main_cps"])
    assert back.checked_type == mod["main"].checked_type != cps["main_cps"].checked_type
    for value in (0.5, 4.0):
        (got,) = relay.interpret(back, [np.float32(value)])
        np.testing.assert_allclose(got, relay.interpret(mod, [np.float32(value)])[0], rtol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_return_to_their_values(seed: int) -> None:
    mod = infer_type(Programs(Random(seed)).module())
    cps = to_cps(mod)
    (name,) = [gvar for gvar in cps.functions if gvar.name == "main_cps"]
    inputs = [np.int32(3), np.arange(3, dtype="float32"), np.zeros((2, 4, 5), "float32")]
    again = cps.with_function("main", un_cps(cps[name]))
    assert repr(relay.evaluate(again, inputs, False)) == repr(relay.evaluate(mod, inputs, False))


def test_a_function_that_returns_is_refused() -> None:
    with pytest.raises(TypeMismatchError, match=r"un_cps: fn \(float32\) -> float32 does not pass its result on"):
        un_cps(infer_type(relay.parse(TEXT))["main"])
