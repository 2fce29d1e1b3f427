"""Passes of a few lines: canonical casts and operators, fusion undone, arguments split."""

import pytest

from tests.relay.helpers import assert_same, module, op_names, small_cnn, weights
from tilewright import relay
from tilewright.errors import InputError
from tilewright.relay.transform.fuse.defuse_ops import defuse_ops
from tilewright.relay.transform.fuse.fuse_ops import fuse_ops
from tilewright.relay.transform.fuse.split_args import split_args
from tilewright.relay.transform.simplify.canonicalize_cast import canonicalize_cast
from tilewright.relay.transform.simplify.canonicalize_ops import canonicalize_ops
from tilewright.relay.transform.simplify.simplify_inference import simplify_inference


def test_each_reader_of_a_widening_cast_gets_its_own() -> None:
    x = relay.var("x", shape=(4,), dtype="int8")
    wide = relay.cast(x, "int32")
    mod = module(relay.Tuple([wide + 1, wide * 2]))
    after = canonicalize_cast(mod)
    assert op_names(mod).count("cast") == 1
    assert op_names(after) == ["cast", "add", "cast", "multiply"]
    assert_same(mod, after)


def test_narrowing_casts_and_single_readers_stay() -> None:
    x = relay.var("x", shape=(4,), dtype="int32")
    narrow = relay.cast(x, "int8")
    mod = module(relay.Tuple([narrow + 1, narrow * 2, relay.cast(x, "int64")]))
    assert canonicalize_cast(mod) is mod


@pytest.mark.parametrize("axis", [1, -1])
def test_bias_add_becomes_an_addition(axis: int) -> None:
    x = relay.var("x", shape=(2, 3, 4))
    mod = module(relay.nn.bias_add(x, weights((2, 3, 4)[axis]), axis=axis))
    after = canonicalize_ops(mod)
    assert op_names(after) == ["add"]
    assert_same(mod, after)


def test_fusion_can_be_undone() -> None:
    mod = simplify_inference(small_cnn())
    fused = fuse_ops(mod)
    after = defuse_ops(fused)
    assert all(isinstance(call.op, relay.ir.registry.Op) for call in relay.visitor.calls(after["main"].body))
    assert sorted(op_names(after)) == sorted(op_names(mod))
    assert_same(mod, after)


def test_long_concatenations_are_split_in_levels() -> None:
    parts = [relay.var(f"x{i}", shape=(1, 2)) for i in range(10)]
    mod = module(relay.concatenate(parts, axis=0))
    after = split_args(mod, 3)
    widths = [len(call.args[0].fields) for call in relay.visitor.calls(after["main"].body)]  # type: ignore
    assert widths == [3, 3, 3, 3, 2]
    assert_same(mod, after)
    assert split_args(mod, 10) is mod
    assert split_args(mod, -1) is mod


def test_a_limit_below_two_is_refused() -> None:
    with pytest.raises(InputError, match="at least 2 tensors, not 1"):
        split_args(small_cnn(), 1)
