"""Weights and biases without a type get the one that their operator expects."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright import relay
from tilewright.errors import TypeMismatchError
from tilewright.relay.transform import infer_type

CASES: list[tuple[Callable[..., relay.Expr], tuple[int, ...], list[tuple[int, ...]]]] = [
    (lambda x, w: relay.nn.dense(x, w, units=5), (2, 4), [(5, 4)]),
    (lambda x, w: relay.nn.conv2d(x, w, channels=8, kernel_size=(3, 5), groups=2), (1, 6, 9, 9), [(8, 3, 3, 5)]),
    (
        lambda x, w: relay.nn.conv2d(x, w, channels=8, kernel_size=(3, 5), data_layout="NHWC", kernel_layout="HWIO"),
        (1, 9, 9, 6),
        [(3, 5, 6, 8)],
    ),
    (lambda x, w: relay.nn.conv2d_transpose(x, w, channels=8, kernel_size=(3, 3)), (1, 6, 9, 9), [(6, 8, 3, 3)]),
    (lambda x, b: relay.nn.bias_add(x, b), (1, 6, 9, 9), [(6,)]),
    (lambda x, *stats: relay.nn.batch_norm(x, *stats)[0], (1, 6, 9, 9), [(6,)] * 4),
    (lambda x, g, b: relay.nn.layer_norm(x, g, b), (2, 5), [(5,)] * 2),
    (lambda x, a: relay.nn.prelu(x, a), (1, 6, 9, 9), [(6,)]),
]


@pytest.mark.parametrize("build, shape, expected", CASES)
def test_the_types_follow_from_the_data(
    build: Callable[..., relay.Expr], shape: tuple[int, ...], expected: list[tuple[int, ...]]
) -> None:
    operands = [relay.var(f"p{i}") for i in range(len(expected))]
    mod = infer_type(relay.IRModule.from_expr(relay.nn.relu(build(relay.var("x", shape=shape), *operands))))
    assert [operand.checked_type for operand in operands] == [relay.TensorType(s) for s in expected]
    assert len(mod["main"].params) == 1 + len(expected)


def test_a_network_of_untyped_weights() -> None:
    x = relay.var("x", shape=(1, 3, 8, 8))
    for i in range(2):
        x = relay.nn.conv2d(x, relay.var(f"w{i}"), channels=4, kernel_size=(3, 3), padding=(1, 1, 1, 1))  # type: ignore[assignment]
        x = relay.nn.relu(relay.nn.bias_add(x, relay.var(f"b{i}")))  # type: ignore[assignment]
    mod = infer_type(relay.IRModule.from_expr(x))
    assert str(mod["main"].func_type.ret_type) == "Tensor[(1, 4, 8, 8), float32]"


def test_what_does_not_follow_is_asked_for() -> None:
    x = relay.var("x", shape=(2, 4))
    with pytest.raises(TypeMismatchError, match="the variable 'w' has no type"):
        infer_type(relay.IRModule.from_expr(relay.nn.dense(x, relay.var("w"))))
