"""Several runs of a model as one graph."""

from __future__ import annotations

import numpy as np

from tilewright import relay
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.functional.repeat_main import repeat_main


def test_each_run_has_inputs_and_outputs_of_its_own() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    body = relay.Tuple([relay.add(x, y), relay.multiply(x, relay.const(np.float32(3)))])
    mod = IRModule.from_expr(Function([x, y], body, attrs={"output_names": ("sum", "triple")}))
    main = repeat_main(mod, 2)["main"]
    assert [param.name for param in main.params] == ["x_0", "y_0", "x_1", "y_1"]
    assert main.attrs["output_names"] == ("sum_0", "triple_0", "sum_1", "triple_1")
    arrays = np.arange(8, dtype=np.float32).reshape(4, 2)
    found = interpret(main, dict(zip(["x_0", "y_0", "x_1", "y_1"], arrays)))
    for result, want in zip(found, [arrays[0] + arrays[1], 3 * arrays[0], arrays[2] + arrays[3], 3 * arrays[2]]):
        np.testing.assert_array_equal(result, want)
    assert repeat_main(mod, 1) is mod


def test_a_result_that_is_a_tuple_is_taken_apart() -> None:
    x = relay.var("x", shape=(4,))
    mod = repeat_main(IRModule.from_expr(Function([x], relay.split(x, 2))), 3)
    assert len(mod["main"].checked_type.ret_type.fields) == 6
