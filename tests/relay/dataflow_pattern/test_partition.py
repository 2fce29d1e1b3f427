"""Pieces made functions: before and after, and the same values."""

from __future__ import annotations

from tests.relay.helpers import assert_same, module, weights
from tilewright import relay
from tilewright.relay.dataflow_pattern import is_constant, is_op, wildcard
from tilewright.relay.ir.visitor import calls


def network() -> relay.Expr:
    x = relay.var("x", shape=(1, 3, 8, 8))
    first = relay.nn.relu(relay.nn.conv2d(x, weights(4, 3, 3, 3), padding=(1, 1, 1, 1)))
    return relay.nn.relu(relay.nn.conv2d(first, weights(4, 4, 3, 3, seed=1), padding=(1, 1, 1, 1)))


def functions(expr: relay.Expr) -> list[relay.Function]:
    return [call.op for call in calls(expr) if isinstance(call.op, relay.Function)]


def test_each_piece_becomes_a_call_of_a_function() -> None:
    before = network()
    pattern = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard()))
    after = pattern.partition(before, {"Composite": "x.conv_relu"})
    made = functions(after)
    assert [len(func.params) for func in made] == [2, 2]
    assert made[0].attrs == {"PartitionedFromPattern": "nn.conv2d_nn.relu_", "Composite": "x.conv_relu"}
    assert_same(module(before), module(after))


def test_constants_that_the_pattern_names_stay_inside() -> None:
    before = network()
    after = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), is_constant())).partition(before)
    assert [len(func.params) for func in functions(after)] == [1, 1]
    assert_same(module(before), module(after))


def test_options_take_what_is_there_and_pieces_do_not_overlap() -> None:
    x = relay.var("x", shape=(2, 3))
    before = relay.exp(relay.sqrt(relay.exp(relay.nn.relu(relay.exp(x)))))
    pattern = is_op("exp")(wildcard()).optional(lambda inner: is_op("sqrt")(inner))
    after = pattern.partition(before)
    assert [func.attrs["PartitionedFromPattern"] for func in functions(after)] == ["exp_", "exp_sqrt_", "exp_"]


def test_a_piece_whose_inside_is_used_elsewhere_stays() -> None:
    x = relay.var("x", shape=(2, 3))
    inner = relay.exp(x)
    before = relay.Tuple([relay.sqrt(inner), inner])
    assert is_op("sqrt")(is_op("exp")(wildcard())).partition(before) is before


def test_the_check_decides() -> None:
    before = network()
    pattern = is_op("nn.conv2d")(wildcard(), wildcard())

    def takes_four_channels(found: relay.Expr) -> bool:
        assert isinstance(found, relay.Call)
        return relay.tensor_type_of(found.args[0]).shape[1] == 4

    assert len(functions(pattern.partition(before, check=takes_four_channels))) == 1
