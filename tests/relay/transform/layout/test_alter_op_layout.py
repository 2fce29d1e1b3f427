"""Rules of a program's own for layouts: what they replace, what follows, where values are moved, the same results."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.relay.helpers import assert_same, module, op_names, weights
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.layout.alter_layout import alter_layout
from tilewright.relay.transform.layout.alter_op_layout import alter_op_layout, altered_layout

Build = Callable[[relay.Expr], relay.Expr]


def in_blocks(attrs: relay.Attrs, inputs: Sequence[relay.Expr], _types: Any) -> relay.Expr:
    """A convolution with 4 channels innermost on both sides."""
    data = attrs.data_layout.replace("NHWC", "NCHW") + "4c"
    return relay.Call(relay.ir.registry.get("nn.conv2d"), inputs, attrs.replace(data_layout=data, kernel_layout="OIHW"))


def altered(body: relay.Expr, **rules: Any) -> tuple[relay.IRModule, relay.IRModule]:
    mod = module(body)
    return mod, alter_op_layout(mod, {"nn.conv2d": in_blocks, **rules})


def convolution(channels: int = 8, shape: Sequence[int] = (1, 4, 6, 6)) -> relay.Expr:
    return relay.nn.conv2d(relay.var("x", shape=shape), weights(channels, shape[1], 3, 3), padding=(1, 1))


FOLLOWING: dict[str, Build] = {
    "scaled": lambda y: relay.multiply(relay.const(weights(8, 1, 1).data), y),
    "sum of channels": lambda y: relay.sum(y, axis=1, keepdims=True),
    "sum of what is left": lambda y: relay.mean(y, axis=1, exclude=True),
    "variance": lambda y: relay.variance(y, axis=(2, 3)),
    "padded": lambda y: relay.nn.pad(y, ((0, 0), (0, 0), (1, 0), (0, 2))),
    "pooled": lambda y: relay.nn.max_pool2d(y, (2, 2)),
    "sliced": lambda y: relay.strided_slice(y, (0, 4, 1), (1, 8, 5)),
    "sliced along channels": lambda y: relay.strided_slice(y, (4,), (8,), axes=(1,)),
    "concatenated": lambda y: relay.concatenate([y, relay.tanh(y)], axis=-3),
    "split": lambda y: relay.split(y, 2, axis=2)[1],
    "squeezed": lambda y: relay.squeeze(y, axis=(0,)),
}


@pytest.mark.parametrize("build", FOLLOWING.values(), ids=FOLLOWING.keys())
def test_what_reads_a_call_in_blocks_follows(build: Build) -> None:
    mod, after = altered(build(relay.nn.relu(convolution())))
    moves = [call.attrs for call in calls(after["main"].body) if call.op.name == "layout_transform"]  # type: ignore
    assert sum("c" in move.src_layout for move in moves) == 1
    assert op_names(after)[-1] == "layout_transform" and op_names(after)[-2] != "nn.relu"
    assert_same(mod, after, rtol=1e-4)


@pytest.mark.parametrize(
    "build",
    [
        lambda y: relay.nn.pad(y, ((0, 0), (1, 1), (0, 0), (0, 0))),
        lambda y: relay.strided_slice(y, (1,), (7,), axes=(1,)),
        lambda y: relay.nn.softmax(y, axis=1),
        lambda y: relay.argmax(y, axis=(1, 2)),
        lambda y: relay.transpose(y, (0, 2, 3, 1)),
        lambda y: relay.add(y, relay.var("z", shape=(8, 6, 6))),
        lambda y: relay.nn.batch_flatten(y),
    ],
)
def test_results_are_the_same_where_blocks_stand_in_the_way(build: Build) -> None:
    mod, after = altered(build(relay.nn.relu(convolution())))
    assert_same(mod, after, rtol=1e-4)


def test_a_value_is_moved_once_for_all_that_want_it() -> None:
    x = relay.var("x", shape=(1, 4, 6, 6))
    first, second = (relay.nn.conv2d(x, weights(4, 4, 1, 1)) for _ in range(2))
    mod, after = altered(relay.Tuple([relay.add(first, second), relay.nn.relu(x)]))
    assert op_names(after).count("layout_transform") == 2
    assert_same(mod, after, rtol=1e-4)


def test_a_rule_may_replace_operands_or_keep_the_call() -> None:
    def doubled(attrs: relay.Attrs, inputs: Sequence[relay.Expr], types: Sequence[Any]) -> relay.Expr | None:
        assert [type_.ndim for type_ in types] == [4, 4, 4]
        if types[0].shape[1] != 4:
            return None
        kernel = relay.multiply(relay.multiply(inputs[1], relay.const(2.0)), relay.const(0.5))
        return relay.Call(relay.ir.registry.get("nn.conv2d"), [inputs[0], kernel], attrs)

    mod = module(relay.nn.conv2d(convolution(), weights(4, 8, 1, 1)))
    after = alter_op_layout(mod, {"nn.conv2d": doubled})
    assert op_names(after).count("multiply") == 2
    assert_same(mod, after, rtol=1e-4)


def test_rules_in_force_and_none_at_all() -> None:
    mod = module(convolution())
    assert alter_op_layout(mod) is mod
    with altered_layout("nn.conv2d", in_blocks):
        after = alter_op_layout(mod)
    assert op_names(after) == ["layout_transform", "nn.conv2d", "layout_transform"]
    assert_same(mod, alter_layout(after, backend_of(None)), rtol=1e-4)
