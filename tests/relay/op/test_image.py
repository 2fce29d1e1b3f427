"""resize2d against onnxruntime over methods, coordinate conventions and scales."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.errors import TypeMismatchError
from tilewright.relay import Function, IRModule, op
from tilewright.relay.ir.expr import const
from tilewright.relay.ir.type_of import type_of
from tilewright.topi.reference.layout import layout_transform

MODES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")
SCALES = [(2.0, 2.0), (1.0, 3.0), (0.5, 1.8), (2.6, 0.7)]


def resized(onnxruntime_node, x, scales, **attrs):
    factors = np.array([1, 1, *scales], "float32")
    return onnxruntime_node("Resize", [x, None, factors], opset=19, **attrs)[0]


#: half_pixel_symmetric puts the middle exactly between two elements, where float rounding decides.
NEAREST = [(mode, scales) for mode in MODES for scales in SCALES if mode != "half_pixel_symmetric" or scales[0] == 2]


@pytest.mark.parametrize(("mode", "scales"), NEAREST)
def test_nearest_neighbours_agree_with_onnxruntime(check, onnxruntime_node, mode, scales):
    x = np.random.default_rng(1).standard_normal((1, 2, 5, 7)).astype("float32")
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        expected = resized(
            onnxruntime_node,
            x,
            scales,
            mode="nearest",
            coordinate_transformation_mode=mode,
            nearest_mode=rounding,
        )
        call = op.image.resize2d(
            const(x),
            expected.shape[2:],
            method="nearest_neighbor",
            coordinate_transformation_mode=mode,
            rounding_method=rounding,
            scales=scales,
        )
        check(call, expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_interpolation_agrees_with_onnxruntime(check, onnxruntime_node, mode, scales, method):
    x = np.random.default_rng(2).standard_normal((1, 2, 5, 7)).astype("float32")
    for exclude in (0, 1) if method == "cubic" else (0,):
        expected = resized(
            onnxruntime_node,
            x,
            scales,
            mode=method,
            coordinate_transformation_mode=mode,
            cubic_coeff_a=-0.6,
            exclude_outside=exclude,
        )
        call = op.image.resize2d(
            const(x),
            expected.shape[2:],
            method=method,
            coordinate_transformation_mode=mode,
            cubic_alpha=-0.6,
            cubic_exclude=bool(exclude),
            scales=scales,
        )
        check(call, expected, rtol=1e-3, atol=1e-4)


def test_blocked_images_resize_as_plain_ones(check):
    x = np.random.default_rng(3).standard_normal((1, 4, 3, 3)).astype("float32")
    blocked = const(layout_transform(x, "NCHW", "NCHW2c"))
    for method in ("nearest_neighbor", "linear"):
        plain = check(op.image.resize2d(const(x), (6, 4), method=method), atol=1e-5)
        call = op.image.resize2d(blocked, (6, 4), layout="NCHW2c", method=method)
        check(call, layout_transform(plain, "NCHW", "NCHW2c"), atol=1e-5)


def test_whole_factors_use_integer_arithmetic():
    """Upsampling by 2 must read x[i // 2], so that it stays cheap and exact."""
    from tilewright.topi.reference.resize import integer_step, nearest_indices

    assert integer_step(nearest_indices(5, 10, 2.0, "half_pixel", "round_prefer_floor")) == (1, 2)
    assert integer_step(nearest_indices(5, 15, 3.0, "asymmetric", "floor")) == (1, 3)
    assert integer_step(nearest_indices(8, 4, 0.5, "asymmetric", "floor")) == (2, 1)
    assert integer_step(nearest_indices(5, 7, 1.4, "half_pixel", "floor")) is None


def test_unknown_methods_are_refused_with_the_known_ones():
    x = const(np.zeros((1, 1, 4, 4), "float32"))
    with pytest.raises(TypeMismatchError, match="method='nearest'; known: nearest_neighbor, linear, cubic"):
        type_of(op.image.resize2d(x, 8, method="nearest"))


def test_round_takes_the_later_of_two_nearest() -> None:
    x = const(np.arange(3, dtype="float32").reshape(1, 1, 1, 3))
    for rounding, want in (("round", [0, 1, 1, 2, 2]), ("round_prefer_floor", [0, 0, 1, 1, 2])):
        call = op.image.resize2d(
            x, (1, 5), method="nearest_neighbor", coordinate_transformation_mode="align_corners",
            rounding_method=rounding,
        )  # fmt: skip
        run = tw.compile(IRModule.from_expr(Function([], call)), cache=False)
        for found in (relay.interpret(call, [])[0], run()):
            np.testing.assert_array_equal(np.asarray(found).reshape(-1), want)
