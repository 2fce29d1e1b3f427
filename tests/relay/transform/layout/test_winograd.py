"""Convolutions that `alter_layout` makes Winograd convolutions, with the values kept."""

from __future__ import annotations

import pytest

from tests.relay.helpers import assert_same, module, op_names, weights
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform import alter_layout, fold_constant, infer_type
from tilewright.target import Target

TARGET = Target("llvm -mcpu=znver4")
WINOGRAD = "nn.contrib_conv2d_winograd_without_weight_transform"


def _converted(result: relay.Expr) -> relay.IRModule:
    mod = module(result)
    after = alter_layout(mod, backend_of(TARGET))
    assert_same(mod, after, rtol=1e-4)
    return after


def _input(channels: int, size: int) -> relay.Expr:
    return relay.var("x", shape=(1, channels, size, size))


def test_weights_are_transformed_at_compile_time() -> None:
    conv = relay.nn.conv2d(_input(32, 15), weights(32, 32, 3, 3), padding=1)
    folded = infer_type(fold_constant(_converted(relay.nn.relu(conv)), limit=0))
    assert op_names(folded) == ["layout_transform", WINOGRAD, "nn.relu", "layout_transform"]
    (call,) = [call for call in calls(folded["main"].body) if call.op.name == WINOGRAD]
    assert call.args[1].data.shape == (2, 6, 6, 32, 16) and call.attrs.tile_size == 4


@pytest.mark.parametrize(
    "attrs",
    [{"strides": 3}, {"dilation": 2}, {"groups": 2}],
    ids=lambda attrs: next(iter(attrs)),
)
def test_other_windows_stay_direct(attrs: dict[str, int]) -> None:
    conv = relay.nn.conv2d(_input(32, 15), weights(32, 32 // attrs.get("groups", 1), 3, 3), padding=1, **attrs)
    assert WINOGRAD not in op_names(_converted(conv))


@pytest.mark.parametrize("shape", [(32, 32, 1, 1), (32, 32, 7, 7), (30, 32, 3, 3)])
def test_other_kernels_stay_direct(shape: tuple[int, ...]) -> None:
    assert WINOGRAD not in op_names(_converted(relay.nn.conv2d(_input(32, 15), weights(*shape), padding=1)))


@pytest.mark.parametrize(
    ("kernel", "strides", "points"), [((3, 3), (2, 2), (9, 9)), ((3, 1), (1, 1), (6, 1)), ((1, 7), (1, 1), (1, 10))]
)
def test_strides_and_one_dimension(kernel: tuple[int, int], strides: tuple[int, int], points: tuple[int, int]) -> None:
    """The columns or rows of a kernel of one tap are left as they are."""
    padding = (kernel[0] // 2, kernel[1] // 2)
    conv = relay.nn.conv2d(_input(64, 56), weights(64, 64, *kernel), strides=strides, padding=padding)
    after = fold_constant(_converted(conv))
    (call,) = [c for c in calls(after["main"].body) if c.op.name == WINOGRAD]
    assert call.args[1].data.shape == (4, *points, 64, 16)
    assert (call.attrs.kernel_size, call.attrs.strides) == (kernel, strides)


def test_first_layers_and_computed_weights_stay_direct() -> None:
    conv = relay.nn.conv2d(_input(3, 15), weights(32, 3, 3, 3))
    conv = relay.nn.conv2d(conv, relay.var("w", shape=(32, 32, 3, 3)))
    assert WINOGRAD not in op_names(_converted(conv))
