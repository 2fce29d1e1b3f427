"""Code for other processors of this architecture, run here: the short form of the suite under TILEWRIGHT_TARGET.

Each model has another kind of kernel. It is compiled for three levels of x86-64, each with wider vectors and more
instructions than the one before, and compared with the operators' reference functions in NumPy. The whole suite runs
on one level with TILEWRIGHT_TARGET="llvm -mcpu=haswell" scripts/test.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import feed, module, weights
from tilewright import relay
from tilewright.relay import op
from tilewright.target import Target

LEVELS = ["x86-64-v2", "haswell", "skylake-avx512"]


def var(*shape: int, dtype: str = "float32") -> relay.Var:
    return relay.var("x", shape=shape, dtype=dtype)


def convolution() -> relay.Expr:
    """Three by three, of which Winograd's algorithm may be taken."""
    return op.nn.relu(op.nn.conv2d(var(1, 24, 14, 13), weights(40, 24, 3, 3), padding=(1, 1)))


def pointwise() -> relay.Expr:
    return op.nn.conv2d(var(1, 24, 9, 11), weights(33, 24, 1, 1), strides=(2, 2))


def depthwise() -> relay.Expr:
    return op.nn.conv2d(var(1, 33, 12, 9), weights(33, 1, 5, 5), padding=(2, 2), groups=33)


def dense() -> relay.Expr:
    return op.nn.bias_add(op.nn.dense(var(17, 67), weights(45, 67)), weights(45, seed=1))


def softmax() -> relay.Expr:
    return op.nn.softmax(op.sum(var(7, 5, 39), axis=1), axis=-1)


def layer_norm() -> relay.Expr:
    return op.nn.layer_norm(var(11, 50), weights(50), weights(50, seed=1))


def lstm() -> relay.Expr:
    state = [weights(1, 2, 19, seed=seed) for seed in (1, 2)]
    return op.nn.lstm(var(5, 2, 4 * 19), weights(1, 4 * 19, 19), *state)[0]


def attention() -> relay.Expr:
    """As importers write it; the compiler makes one kernel of it."""
    x = var(3, 18, 16)
    scores = op.nn.batch_matmul(x, op.multiply(x, relay.const(np.float32(0.25))))
    return op.nn.batch_matmul(op.nn.softmax(scores, axis=-1), x, transpose_b=False)


def half() -> relay.Expr:
    """Numbers that are stored in 16 bits and multiplied in 32."""
    return op.cast(op.multiply(op.cast(var(5, 37), dtype="float16"), relay.const(np.float16(1.7))), dtype="float32")


def network() -> relay.Expr:
    """Two convolutions and a residual, pooled and classified."""
    x = var(1, 3, 20, 18)
    first = op.nn.relu(op.nn.conv2d(x, weights(16, 3, 3, 3), strides=(2, 2), padding=(1, 1)))
    second = op.nn.conv2d(first, weights(16, 16, 3, 3, seed=1), padding=(1, 1))
    pooled = op.nn.global_avg_pool2d(op.nn.max_pool2d(op.add(first, second), pool_size=(2, 2), strides=(2, 2)))
    return op.nn.softmax(op.nn.dense(op.nn.batch_flatten(pooled), weights(10, 16)))


MODELS: list[Callable[[], relay.Expr]] = [
    convolution, pointwise, depthwise, dense, softmax, layer_norm, lstm, attention, half, network,
]  # fmt: skip


def named(level: str) -> Target:
    """The target of a level; the test is skipped where this machine cannot run its code."""
    if Target.host().architecture != "x86_64":
        pytest.skip("these are levels of x86-64")
    target = Target(f"llvm -mcpu={level}")
    if not target.is_host:
        pytest.skip(f"this machine cannot run code for {level}")
    return target


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
@pytest.mark.sample(8)
def test_kernels_of_floats_agree_on_every_level(build: Callable[[], relay.Expr], level: str) -> None:
    target, mod = named(level), module(build())
    inputs = feed(mod)
    ours = tw.compile(mod, target=target, threads=2, cache=False)(*inputs)
    (expected,) = relay.interpret(mod, inputs)
    # What is computed of halves need not be rounded to 16 bits where a program goes on with it in 32.
    rtol = 2**-10 if build is half else 1e-4
    np.testing.assert_allclose(ours, expected, rtol=rtol, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("level", LEVELS)
def test_products_of_bytes(level: str) -> None:
    """Exact for the largest and smallest bytes, whose pairs do not fit into 16 bits."""
    target, rng = named(level), np.random.default_rng(3)
    x = rng.choice(np.uint8([0, 1, 254, 255]), (9, 70))
    w = rng.choice(np.int8([-128, -127, 126, 127]), (35, 70))
    product = op.qnn.dense(
        var(9, 70, dtype="uint8"), relay.const(w), relay.const(np.int32(3)), relay.const(np.int32(0)),
        relay.const(np.float32(1)), relay.const(np.float32(1)), units=35,
    )  # fmt: skip
    ours = tw.compile(module(product), target=target, threads=2, cache=False)(x)
    np.testing.assert_array_equal(ours, (x.astype(np.int32) - 3) @ w.T.astype(np.int32))
