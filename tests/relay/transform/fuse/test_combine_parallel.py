"""Calls of one input combined: convolutions, dense layers, batched products."""

import pytest

from tests.relay.helpers import assert_same, module, op_names, weights
from tilewright import relay
from tilewright.relay.transform.fuse.combine_parallel_batch_matmul import combine_parallel_batch_matmul
from tilewright.relay.transform.fuse.combine_parallel_conv2d import combine_parallel_conv2d
from tilewright.relay.transform.fuse.combine_parallel_dense import combine_parallel_dense


def test_convolutions_of_one_input_become_one_with_their_bias_and_relu() -> None:
    x = relay.var("x", shape=(1, 4, 6, 6))

    def branch(channels: int, seed: int) -> relay.Expr:
        y = relay.nn.conv2d(x, weights(channels, 4, 3, 3, seed=seed), padding=1, channels=channels)
        return relay.nn.relu(relay.add(y, weights(channels, 1, 1, seed=seed + 10)))

    mod = module(relay.Tuple([branch(2, 0), branch(6, 1), branch(4, 2)]))
    after = combine_parallel_conv2d(mod)
    assert op_names(after) == ["nn.conv2d", "add", "nn.relu", "strided_slice", "strided_slice", "strided_slice"]
    assert_same(mod, after)


def test_convolutions_with_other_windows_or_groups_stay() -> None:
    x = relay.var("x", shape=(1, 4, 6, 6))
    one, three = weights(4, 4, 1, 1), weights(4, 4, 3, 3)
    mod = module(
        relay.Tuple(
            [
                relay.nn.conv2d(x, one),
                relay.nn.conv2d(x, three, padding=1),
                relay.nn.conv2d(x, one, strides=2),
                relay.nn.conv2d(x, weights(4, 1, 1, 1), groups=4),
            ]
        )
    )
    assert combine_parallel_conv2d(mod, min_num_branches=2) is mod


def _attention_inputs(branches: int, bias_add: bool = False) -> relay.IRModule:
    x = relay.var("x", shape=(5, 8))
    fields: list[relay.Expr] = []
    for i in range(branches):
        y = relay.nn.dense(x, weights(6, 8, seed=i))
        bias = weights(6, seed=i + 10)
        fields.append(relay.nn.bias_add(y, bias, axis=-1) if bias_add else relay.add(y, bias))
    return module(relay.Tuple([fields[0] * 0.5, *[relay.tanh(f) for f in fields[1:]]]))


@pytest.mark.parametrize("bias_add", [False, True])
def test_dense_layers_become_one_wider_one(bias_add: bool) -> None:
    mod = _attention_inputs(3, bias_add)
    after = combine_parallel_dense(mod, to_batch=False)
    assert op_names(after).count("nn.dense") == 1
    assert op_names(after).count("nn.bias_add" if bias_add else "add") == 1
    assert_same(mod, after)


def test_dense_layers_become_a_batch_of_products() -> None:
    mod = _attention_inputs(3)
    after = combine_parallel_dense(mod)
    assert op_names(after)[:3] == ["reshape", "nn.batch_matmul", "add"]
    assert "nn.dense" not in op_names(after)
    assert_same(mod, after)


def test_fewer_branches_than_asked_for_stay() -> None:
    mod = _attention_inputs(2)
    assert combine_parallel_dense(mod) is mod
    assert op_names(combine_parallel_dense(mod, min_num_branches=2)).count("nn.batch_matmul") == 1


def test_weights_that_are_inputs_join_at_run_time() -> None:
    x, a, b = relay.var("x", shape=(2, 3)), relay.var("a", shape=(4, 3)), relay.var("b", shape=(5, 3))
    mod = module(relay.Tuple([relay.nn.dense(x, a), relay.nn.dense(x, b)]))
    after = combine_parallel_dense(mod, 2, to_batch=False)
    assert op_names(after) == ["concatenate", "nn.dense", "strided_slice", "strided_slice"]
    assert_same(mod, after)


def test_a_weight_computed_from_the_other_branch_keeps_them_apart() -> None:
    x = relay.var("x", shape=(3, 3))
    first = relay.nn.dense(x, weights(3, 3))
    mod = module(relay.Tuple([first, relay.nn.dense(x, relay.nn.relu(first))]))
    assert combine_parallel_dense(mod, 2, to_batch=False) is mod


def test_operands_computed_from_the_other_branch_end_the_combination() -> None:
    x = relay.var("x", shape=(3, 3))
    first, second = relay.nn.dense(x, weights(3, 3)), relay.nn.dense(x, weights(3, 3, seed=1))
    mod = module(relay.add(first, relay.nn.relu(second)))
    after = combine_parallel_dense(mod, 2, to_batch=False)
    assert op_names(after).count("nn.dense") == 1
    assert_same(mod, after)


@pytest.mark.parametrize("transpose_b", [True, False])
def test_batched_products_of_one_left_hand_side(transpose_b: bool) -> None:
    a = relay.var("a", shape=(2, 3, 4))
    shapes = [(2, n, 4) if transpose_b else (2, 4, n) for n in (5, 1, 2)]
    rights = [relay.var(f"b{i}", shape=shape) for i, shape in enumerate(shapes)]
    fields = [relay.nn.relu(relay.nn.batch_matmul(a, b, transpose_b=transpose_b)) for b in rights]
    mod = module(relay.Tuple(fields))
    after = combine_parallel_batch_matmul(mod)
    assert op_names(after).count("nn.batch_matmul") == 1
    assert op_names(after).count("nn.relu") == 1
    assert_same(mod, after)
