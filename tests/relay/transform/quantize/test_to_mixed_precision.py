"""16-bit arithmetic where it pays: which operators change, and how far the results move."""

import numpy as np
import pytest

from tests.relay.helpers import feed, module, op_names, rand, small_cnn, weights
from tilewright import relay
from tilewright.errors import InputError
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.quantize.to_mixed_precision import Precision, to_mixed_precision


def _classifier() -> relay.IRModule:
    x = relay.var("x", shape=(2, 8))
    return module(relay.nn.softmax(relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, weights(4, 8)), weights(4)))))


def _dtypes(mod: relay.IRModule) -> dict[str, str]:
    return {call.op.name: str(call.checked_type.dtype) for call in calls(mod["main"].body)}  # type: ignore


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_products_become_narrow_relu_follows_softmax_stays(half: str) -> None:
    before = _classifier()
    after = to_mixed_precision(before, half)
    dtypes = _dtypes(after)
    assert (dtypes["nn.bias_add"], dtypes["nn.relu"], dtypes["nn.softmax"]) == (half, half, "float32")
    assert dtypes["nn.dense"] == "float32"
    assert op_names(after) == ["cast", "nn.dense", "cast", "nn.bias_add", "nn.relu", "cast", "nn.softmax"]
    assert after["main"].checked_type == before["main"].checked_type


def test_results_stay_close_and_weights_are_stored_narrow() -> None:
    before = small_cnn()
    after = to_mixed_precision(before)
    inputs = feed(before)
    (expected,), (got,) = relay.interpret(before, inputs), relay.interpret(after, inputs)
    np.testing.assert_allclose(got, expected, atol=5e-3)
    assert not np.array_equal(got, expected)
    convolutions = [call for call in calls(after["main"].body) if call.op.name == "nn.conv2d"]  # type: ignore
    assert {str(call.args[1].checked_type.dtype) for call in convolutions} == {"float16"}  # type: ignore


def test_what_starts_wide_stays_wide_until_a_product() -> None:
    x = relay.var("x", shape=(3, 4))
    mod = module(relay.nn.relu(relay.add(x, relay.const(rand(4)))))
    assert _dtypes(to_mixed_precision(mod)) == {"add": "float32", "nn.relu": "float32"}


def test_integers_are_not_touched() -> None:
    table, index = relay.var("table", shape=(5, 4)), relay.var("index", shape=(2,), dtype="int32")
    mod = module(relay.take(relay.nn.dense(table, weights(4, 4)), index, axis=0))
    after = to_mixed_precision(mod)
    assert _dtypes(after)["take"] == "float16" or _dtypes(after)["cast"] == "float32"
    assert [str(param.checked_type.dtype) for param in after["main"].params] == ["float32", "int32"]  # type: ignore


def test_rules_move_an_operator_to_another_list() -> None:
    after = to_mixed_precision(_classifier(), rules={"nn.relu": Precision.NEVER, "nn.softmax": Precision.ALWAYS})
    assert (_dtypes(after)["nn.relu"], _dtypes(after)["nn.softmax"]) == ("float32", "float16")


def test_operators_without_a_list_obey_the_mode() -> None:
    x = relay.var("x", shape=(2, 4))
    mod = module(relay.round(relay.nn.dense(x, weights(3, 4))))
    assert _dtypes(to_mixed_precision(mod, missing_op_mode=1))["round"] == "float16"
    assert _dtypes(to_mixed_precision(mod, missing_op_mode=2))["round"] == "float32"


def test_other_types_and_modes_are_refused() -> None:
    with pytest.raises(InputError, match="one of float16, bfloat16, not 'int8'"):
        to_mixed_precision(_classifier(), "int8")
    with pytest.raises(InputError, match="missing_op_mode is 0, 1 or 2"):
        to_mixed_precision(_classifier(), missing_op_mode=7)
