"""Every simplification rule: what it leaves, and that values stay the same on random data."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.relay.helpers import assert_same, module, op_names, rand, weights
from tilewright import relay
from tilewright.relay.ir import registry
from tilewright.relay.transform.simplify.simplify_expr import rules_of, simplify_expr

Build = Callable[[relay.Expr], relay.Expr]
nn = relay.nn


def _x(*shape: int, dtype: str = "float32") -> relay.Var:
    return relay.var("x", shape=shape, dtype=dtype)


def _flat(x: relay.Expr) -> relay.Expr:
    return relay.reshape(x, (12,))


def _product(x: relay.Expr) -> relay.Expr:
    """A product of a matrix, with a bias, under other axes."""
    return relay.reshape(relay.add(nn.dense(relay.reshape(x, (2, 6)), weights(6, 6)), weights(6)), (4, 3))


_PRODUCT = ["reshape", "nn.dense", "add"]
ALGEBRA: list[tuple[str, Build, list[str]]] = [
    ("neutral", lambda x: relay.divide(relay.multiply(relay.add(x, 0.0), 1.0), 1.0), []),
    ("neutral left", lambda x: relay.multiply(relay.const(1.0), relay.add(relay.const(0.0), x)), []),
    ("neutral of higher rank", lambda x: relay.add(x, relay.const(np.zeros((3, 1, 1, 1), "float32"))), ["add"]),
    ("power of one", lambda x: relay.power(x, 1.0), []),
    ("add of add", lambda x: relay.add(weights(3, seed=1), relay.add(x, weights(3))), ["add"]),
    ("subtract", lambda x: relay.subtract(relay.add(x, 1.0), relay.const(1.0)), []),
    ("combined constant would grow", lambda x: relay.add(relay.add(x, weights(3)), weights(4, 1)), ["add", "add"]),
    ("exact division", lambda x: relay.divide(x, 8.0), ["multiply"]),
    ("inexact division", lambda x: relay.divide(x, 3.0), ["divide"]),
    ("inverse near the limits", lambda x: relay.divide(x, 2.0**125), ["divide"]),
    ("cast to same", lambda x: relay.cast(x, "float32"), []),
    ("relu twice", lambda x: nn.relu(nn.relu(x)), ["nn.relu"]),
    ("negative twice", lambda x: relay.negative(relay.negative(x)), []),
    ("clip of clip", lambda x: relay.clip(relay.clip(x, -1, 2), 0, 6), ["clip"]),
    ("clips that exclude each other", lambda x: relay.clip(relay.clip(x, -2, -1), 0, 6), ["clip", "clip"]),
]

SHAPES: list[tuple[str, Build, list[str]]] = [
    ("reshape chain", lambda x: relay.expand_dims(relay.squeeze(relay.reshape(x, (1, 12))), 0), ["reshape"]),
    ("reshape back", lambda x: relay.reshape(relay.reshape(x, (12,)), (4, 3)), []),
    ("transposes cancel", lambda x: relay.transpose(relay.transpose(x)), []),
    ("transpose of unit axes", lambda x: relay.transpose(relay.reshape(x, (1, 4, 3)), (1, 0, 2)), ["reshape"]),
    ("layouts cancel", lambda x: relay.layout_transform(relay.layout_transform(x, "NC", "NC3c"), "NC3c", "NC"), []),
    ("concatenate of one", lambda x: relay.concatenate([x]), []),
    ("broadcast to same", lambda x: relay.broadcast_to(x, (4, 3)), []),
    ("operand broadcast", lambda x: relay.add(x, relay.broadcast_to(relay.const(2.0), (4, 3))), ["add"]),
    ("broadcast that matters", lambda x: relay.exp(relay.broadcast_to(x, (2, 4, 3))), ["broadcast_to", "exp"]),
    ("whole slice", lambda x: relay.strided_slice(x, [0, 0], [4, 9]), []),
    ("reversing slice", lambda x: relay.strided_slice(x, [3], [-9], [-1]), ["strided_slice"]),
    ("tile once", lambda x: relay.tile(x, (1, 1)), []),
    ("pad of nothing", lambda x: nn.pad(x, [(0, 0), (0, 0)]), []),
    ("relu of reshape", lambda x: nn.relu(relay.reshape(x, (12,))), ["nn.relu", "reshape"]),
    ("bias after squeeze", lambda x: relay.add(relay.expand_dims(x, 0), weights(3)), ["add", "reshape"]),
    ("regrouped bias", lambda x: relay.add(relay.reshape(x, (2, 6)), weights(6)), ["reshape", "add"]),
    ("reshaped alike", lambda x: relay.add(_flat(x), _flat(relay.exp(x))), ["exp", "add", "reshape"]),
    ("reshaped product and more", lambda x: relay.add(_product(x), x), [*_PRODUCT, "reshape", "add", "reshape"]),
    ("more and a reshaped product", lambda x: relay.add(x, _product(x)), ["reshape", *_PRODUCT, "add", "reshape"]),
    (
        "two products, one reshaped",
        lambda x: relay.add(_product(x), nn.dense(x, weights(3, 3))),
        [*_PRODUCT, "reshape", *_PRODUCT[1:]],
    ),
    ("field of a tuple", lambda x: relay.TupleGetItem(relay.Tuple([x, relay.exp(x)]), 0), []),
]


@pytest.mark.parametrize("build,left", [c[1:] for c in ALGEBRA + SHAPES], ids=[c[0] for c in ALGEBRA + SHAPES])
def test_each_rule_leaves_these_operators_and_the_values(build: Build, left: list[str]) -> None:
    mod = module(build(_x(4, 3)))
    after = relay.transform.infer_type(simplify_expr(mod))
    assert op_names(after) == left
    assert_same(mod, after)


def _padded_conv(x: relay.Expr, widths: list[tuple[int, int]], value: float = 0.0) -> relay.Expr:
    padded = nn.pad(x, widths, value)
    return nn.conv2d(padded, weights(2, relay.tensor_type_of(padded).shape[1], 3, 3))


def _conv1d(x: relay.Expr) -> relay.Expr:
    """A one-dimensional convolution the way TensorFlow writes it, with bias and activation behind the squeeze."""
    y = nn.conv2d(relay.mean(x, axis=2, keepdims=True), weights(2, 4, 1, 3))
    return nn.relu(relay.add(relay.squeeze(y, 2), weights(2, 1)))


def _padded_conv1d(x: relay.Expr) -> relay.Expr:
    """Padding in three dimensions before a convolution in four."""
    padded = nn.pad(relay.mean(x, axis=(2,)), [NONE, NONE, (2, 1)])
    return nn.conv2d(relay.expand_dims(padded, 2), weights(2, 4, 1, 3))


NONE, ONE = (0, 0), (1, 1)
IMAGES: list[tuple[str, Build, list[str]]] = [
    ("pad into conv", lambda x: _padded_conv(x, [NONE, NONE, (1, 2), (0, 1)]), ["nn.conv2d"]),
    ("pad with ones", lambda x: _padded_conv(x, [NONE, NONE, ONE, ONE], 1.0), ["nn.pad", "nn.conv2d"]),
    ("pad of channels", lambda x: _padded_conv(x, [NONE, ONE, NONE, NONE]), ["nn.pad", "nn.conv2d"]),
    ("mean is pooling", lambda x: relay.mean(x, axis=(2, 3), keepdims=True), ["nn.global_avg_pool2d"]),
    ("mean drops axes", lambda x: relay.mean(x, axis=(-1, -2)), ["nn.global_avg_pool2d", "reshape"]),
    ("max keeps axes", lambda x: relay.max(x, axis=(2, 3)), ["max", "reshape"]),
    ("resize to same", lambda x: relay.image.resize2d(x, (5, 6)), []),
    ("conv1d as conv2d", _conv1d, ["mean", "nn.conv2d", "add", "nn.relu", "reshape"]),
    ("padded conv1d", _padded_conv1d, ["mean", "reshape", "nn.conv2d"]),
    ("output-first kernel", lambda x: nn.conv2d_transpose(x, weights(4, 3, 2, 2), 2), ["nn.conv2d_transpose"]),
    (
        "transposed pixel",
        lambda x: nn.conv2d_transpose(relay.mean(x, axis=(2, 3), keepdims=True), weights(4, 3, 2, 5)),
        ["nn.global_avg_pool2d", "reshape", "nn.dense", "reshape"],
    ),
    ("zeros_like", lambda x: relay.add(x, relay.zeros_like(relay.exp(x))), []),
    ("full_like", lambda x: relay.add(relay.full_like(x, relay.const(0.0)), x), []),
    ("full of a number", lambda x: relay.multiply(relay.full(relay.const(1.0), x.type_annotation.shape), x), []),
    ("broadcast_to_like", lambda x: relay.broadcast_to_like(weights(6), x), ["broadcast_to"]),
    ("collapse_sum_like", lambda x: relay.collapse_sum_like(x, relay.sum(x, axis=0)), ["collapse_sum_to"]),
    ("reshape_like", lambda x: relay.reshape_like(relay.exp(x), relay.reshape(x, (240,))), ["exp", "reshape"]),
    ("reverse reshape", lambda x: relay.contrib_reverse_reshape(x, (-1, 6)), ["reshape"]),
    ("plain layouts", lambda x: relay.layout_transform(x, "NCHW", "HWCN"), ["transpose"]),
    ("cast_like", lambda x: relay.cast_like(x, relay.exp(x)), []),
    ("ones_like", lambda x: relay.add(x, relay.ones_like(x)), ["add"]),
]


@pytest.mark.parametrize("build,left", [c[1:] for c in IMAGES], ids=[c[0] for c in IMAGES])
def test_rule_on_images(build: Build, left: list[str]) -> None:
    mod = module(build(_x(2, 4, 5, 6)))
    after = relay.transform.infer_type(simplify_expr(mod))
    assert op_names(after) == left
    assert_same(mod, after)


def test_integers_are_left_alone() -> None:
    mod = module(relay.divide(relay.subtract(_x(3, dtype="int32"), 4), 2))
    assert op_names(simplify_expr(mod)) == ["subtract", "divide"]


def test_every_rule_is_tried_above() -> None:
    """A rule that is added without a case here fails this test."""
    tried = {
        "neutral_right", "neutral_left", "constant_to_right", "combine_constants", "subtract_constant",
        "divide_by_power_of_two", "twice_is_once", "twice_is_nothing", "clip_of_clip",
        "same_shape_is_input", "reshape_of_reshape", "transpose_of_transpose", "transpose_is_reshape",
        "layout_round_trip", "concatenate_one", "pad_of_nothing", "whole_slice", "keep_reduced_dims",
        "spatial_mean_is_pool", "pad_into_window", "elementwise_before_reshape", "operand_needs_no_broadcast",
        "binary_before_reshape", "residual_before_reshape", "filled_like", "reshape_before_pad",
        "operand_of_one_number", "full_of_known_shape", "broadcast_to_known_shape", "plain_layouts_are_transpose",
        "collapse_sum_to_known_shape", "reshape_to_known_shape", "cast_to_known_type",
        "transposed_pixel_is_dense", "transposed_kernel_output_first",
    }  # fmt: skip
    rules = {rule.__qualname__.split(".")[0] for name in registry.names() for rule in rules_of(registry.get(name))}  # type: ignore[attr-defined]
    assert rules == tried


def test_random_chains_keep_their_values() -> None:
    rng = np.random.default_rng(7)
    steps: list[Build] = [
        lambda x: relay.reshape(x, (12,)),
        lambda x: relay.reshape(x, (3, 1, 4)),
        lambda x: relay.transpose(x),
        lambda x: relay.add(x, float(rng.integers(-1, 2))),
        lambda x: relay.multiply(relay.const(float(rng.integers(1, 3))), x),
        lambda x: relay.divide(x, 4.0),
        nn.relu,
        relay.negative,
        lambda x: relay.expand_dims(x, 0),
    ]
    for case in range(40):
        value: relay.Expr = _x(3, 4)
        for index in rng.integers(0, len(steps), 8):
            value = steps[index](value)
        mod = module(value)
        assert_same(mod, relay.transform.infer_type(simplify_expr(mod)), seed=case)


def test_a_deep_graph_is_simplified_without_recursion() -> None:
    value: relay.Expr = _x(2, 2)
    for step in range(2000):
        value = relay.reshape(relay.add(value, 0.0), (4,) if step % 2 == 0 else (2, 2))
    assert op_names(simplify_expr(module(value))) == []


def test_constants_combine_only_without_rounding_surprises() -> None:
    mod = module(relay.multiply(relay.multiply(_x(4, 3), relay.const(rand(3))), relay.const(rand(3, seed=1))))
    after = relay.transform.infer_type(simplify_expr(mod))
    assert op_names(after) == ["multiply"]
    assert_same(mod, after, rtol=1e-6)
