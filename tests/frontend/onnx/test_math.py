"""Elementwise converters against the reference, in every operator-set version whose meaning differs."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

Check = Callable[..., list[np.ndarray]]
RNG = np.random.default_rng(7)


def floats(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return RNG.uniform(low, high, shape).astype(np.float32)


@pytest.mark.parametrize(
    "name",
    ["Abs", "Neg", "Exp", "Tanh", "Sigmoid", "Erf", "Floor", "Ceil", "Round", "Sin", "Cos", "Tan", "Relu", "Reciprocal",
     "Sign", "Sinh", "Cosh", "Asinh", "Softplus", "Softsign", "HardSwish", "Elu", "Selu", "Celu", "LeakyRelu",
     "ThresholdedRelu", "HardSigmoid", "Identity"],
)  # fmt: skip
def test_unary_functions_agree_with_the_reference(check_node: Check, name: str) -> None:
    check_node(name, [floats(3, 5)])


@pytest.mark.parametrize("name", ["Log", "Sqrt"])
def test_unary_of_positive(check_node: Check, name: str) -> None:
    check_node(name, [floats(3, 5, low=0.1)])


def test_inverse_hyperbolic_functions_agree(check_node: Check) -> None:
    check_node("Acosh", [floats(6, low=1.1, high=4.0)])
    check_node("Atanh", [floats(6, low=-0.9, high=0.9)])


@pytest.mark.parametrize("name", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum"])
def test_broadcasts_agree_with_the_reference(check_node: Check, name: str) -> None:
    check_node(name, [floats(2, 3, 4), floats(3, 1)])


def test_broadcast_by_attributes_before_opset_7(check_node: Check) -> None:
    x, y = floats(2, 3, 4, 5), floats(3, 4)
    check_node("Add", [x, y], opset=6, broadcast=1, axis=1, expected=[x + y[:, :, None]])


def test_integer_division_truncates(check_node: Check) -> None:
    check_node("Div", [np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])])


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_mod_takes_the_divisors_sign(check_node: Check, dtype: str) -> None:
    left, right = np.array([7, -7, 7, -7, 6]), np.array([3, 3, -3, -3, 3])
    if dtype == "uint8":
        left, right = abs(left), abs(right)
    check_node("Mod", [left.astype(dtype), right.astype(dtype)])


def test_fmod_takes_the_dividends_sign(check_node: Check) -> None:
    check_node("Mod", [floats(8, low=-9, high=9), floats(8, low=1, high=3)], fmod=1)


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, 0.5, 1.7, -1.0])
def test_pow_by_a_constant(check_node: Check, exponent: float) -> None:
    check_node("Pow", [floats(4, 3, low=0.2)], [np.float32(exponent)])


def test_pow_of_mixed_types(check_node: Check) -> None:
    check_node("Pow", [np.array([1, 2, 3], np.int32), np.array([2, 3, 0], np.int32)], opset=15)
    for base in (np.array([-0.5, 2, 3], np.float16), np.array([-0.5, 2, 3], np.float32), np.array([3, 2, 5], np.int8)):
        check_node("Pow", [base, np.array([1e-300, 0.5, 1.5])], opset=15)  # which narrower types have no room for
    check_node("Pow", [floats(3, low=0.5), np.array([2, 3, 0], np.int64)], opset=15)


def test_clip_in_both_versions(check_node: Check) -> None:
    x = floats(4, 5, low=-9, high=9)
    check_node("Clip", [x], opset=6, min=-1.5, max=2.5)
    check_node("Clip", [x], opset=6, max=2.5)
    check_node("Clip", [x], [np.float32(-1), np.float32(6)], opset=13)
    check_node("Clip", [x], [None, np.float32(6)], opset=13)
    check_node("Clip", [x, np.float32(-1), np.float32(1)], opset=13)
    check_node("Clip", [np.arange(9)], [np.int64(2), np.int64(5)], opset=13)


@pytest.mark.parametrize("target", [1, 6, 7, 9, 10, 11])
def test_casts_agree_with_the_reference(check_node: Check, target: int) -> None:
    check_node("Cast", [np.array([-1.7, 0.0, 0.4, 3.9], np.float32)], to=target)


def test_cast_like_takes_the_other_type(check_node: Check) -> None:
    check_node("CastLike", [floats(3), np.zeros(2, np.int64)], opset=19)


def test_nan_and_infinity(check_node: Check) -> None:
    x = np.array([0.0, np.nan, np.inf, -np.inf], np.float32)
    check_node("IsNaN", [x])
    check_node("IsInf", [x])
    check_node("IsInf", [x], detect_negative=0)
    check_node("IsInf", [x], detect_positive=0)


@pytest.mark.parametrize("name", ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"])
def test_comparisons_of_integers_agree(check_node: Check, name: str) -> None:
    check_node(name, [np.array([[1, 2, 3]], np.int32), np.array([[2], [3]], np.int32)])


@pytest.mark.parametrize("name", ["And", "Or", "Xor"])
def test_logic_agrees_with_the_reference(check_node: Check, name: str) -> None:
    check_node(name, [np.array([[True], [False]]), np.array([True, False])])
    check_node("Not", [np.array([True, False])])


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_agrees_in_both_forms(check_node: Check, approximate: str) -> None:
    check_node("Gelu", [floats(3, 7)], opset=20, approximate=approximate)


def test_gelu_of_onnxruntime(check_node: Check) -> None:
    check_node("Gelu", [floats(3, 7)], domain="com.microsoft")


def test_newer_activations_agree(check_node: Check) -> None:
    check_node("Mish", [floats(3, 4)], opset=18)
    check_node("Shrink", [floats(3, 4)], opset=9, lambd=0.7, bias=0.2)
    check_node("Shrink", [np.arange(-3, 4, dtype=np.int32)], opset=9, lambd=1.5)


def test_slopes_of_prelu_are_aligned_by_opset(check_node: Check) -> None:
    check_node("PRelu", [floats(2, 3, 4)], [floats(3, 1)])
    x, slope = floats(2, 3, 4, 4), floats(3)
    check_node("PRelu", [x], [slope], opset=6, expected=[np.where(x < 0, x * slope[:, None, None], x)])


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [0, 1, 2, None])
def test_softmax_flattens_before_opset_13(check_node: Check, name: str, opset: int, axis: int | None) -> None:
    attributes = {} if axis is None else {"axis": axis}
    check_node(name, [floats(2, 3, 4)], opset=opset, **attributes)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_bits_shift_in_both_directions(check_node: Check, direction: str) -> None:
    check_node("BitShift", [np.array([16, 5], np.uint32), np.array([1, 2], np.uint32)], direction=direction)


@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero)")  # 0 / 0 on the branch that is not taken
@pytest.mark.parametrize("name", ["Asin", "Acos"])
def test_inverse_trigonometry_agrees_over_the_domain(check_node: Check, name: str) -> None:
    check_node(name, [np.linspace(-1, 1, 101, dtype=np.float32)], rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero)")  # inf / inf on the branch that is not taken
def test_atan_far_from_zero(check_node: Check) -> None:
    x = np.concatenate([np.linspace(-5, 5, 301), [-np.inf, np.inf, 1e20, -1e-20]]).astype(np.float32)
    check_node("Atan", [x], rtol=1e-6, atol=1e-7)


def test_float_mod_takes_the_divisors_sign(check_node: Check) -> None:
    x, y = floats(8, low=-9, high=9), np.array([3, -3, 2.5, -2.5, np.inf, -np.inf, 1, -1], np.float32)
    check_node("Mod", [x, y], opset=28, expected=[np.mod(x, y)])


@pytest.mark.parametrize("dtype", ["int32", "uint8", "uint32", "float64"])
def test_shrink_of_any_number(check_node: Check, dtype: str) -> None:
    x = np.array([0, 1, 2, 3, 9, 120], dtype) if dtype[0] == "u" else np.array([-7, -2, -1, 0, 1, 2, 9], dtype)
    check_node("Shrink", [x], lambd=1.5, bias=0.75, rtol=1e-12)


def test_defaults_of_attributes_are_float32(check_node: Check) -> None:
    x = RNG.uniform(-2, 2, 20)
    slope = float(np.float32(0.01))
    check_node("LeakyRelu", [x], expected=[np.where(x < 0, slope * x, x)], rtol=1e-12)
    alpha = float(np.float32(0.2))
    check_node("HardSigmoid", [x], expected=[np.clip(alpha * x + 0.5, 0, 1)], rtol=1e-12)


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("opset", [11, 13])
def test_softmax_of_nothing(check_node: Check, name: str, opset: int) -> None:
    x = np.zeros((2, 0, 3), np.float32)
    check_node(name, [x], opset=opset, axis=1, expected=[x])


@pytest.mark.parametrize(
    ("name", "bound"), [("ReduceMax", -np.inf), ("ReduceMin", np.inf), ("ReduceLogSumExp", -np.inf)]
)
def test_extremes_of_nothing(check_node: Check, name: str, bound: float) -> None:
    x = np.zeros((2, 0, 3), np.float32)
    check_node(name, [x], [np.array([1])], opset=20, expected=[np.full((2, 1, 3), bound, np.float32)])
    check_node(name, [x], [np.array([0])], opset=20, keepdims=0, expected=[np.zeros((0, 3), np.float32)])
    if name != "ReduceLogSumExp":
        least, greatest = np.iinfo(np.int8).min, np.iinfo(np.int8).max
        wanted = np.array(least if name == "ReduceMax" else greatest, np.int8)
        check_node(name, [x.astype(np.int8)], opset=20, keepdims=0, expected=[wanted])
        check_node(name, [x.astype(bool)], opset=20, keepdims=0, expected=[np.array(name == "ReduceMin")])


@pytest.mark.parametrize("saturate", [0, 1])
def test_a_cast_of_float8_to_itself_saturates(check_node: Check, saturate: int) -> None:
    x = np.array([1.0, np.inf, -np.inf, -2.0]).astype(ml_dtypes.float8_e5m2)
    check_node("Cast", [x], opset=20, to=19, saturate=saturate)  # to float8e5m2


def test_what_float8_is_no_number(check_node: Check) -> None:
    x = np.array([1.0, np.nan, -2.0, np.inf, -np.inf]).astype(ml_dtypes.float8_e5m2)
    check_node("IsNaN", [x], opset=20, expected=[np.array([False, True, False, False, False])])
    check_node("IsInf", [x], opset=20, detect_negative=0, expected=[np.array([False, False, False, True, False])])


def test_erf_of_integers_is_cut_off(check_node: Check) -> None:
    check_node("Erf", [np.array([-9, -1, 0, 1, 9], np.int16)], opset=9, expected=[np.array([-1, 0, 0, 0, 1], np.int16)])


@pytest.mark.parametrize("name", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
def test_windows_in_float64(check_node: Check, name: str, periodic: int) -> None:
    terms = {"HannWindow": (0.5, 0.5, 0), "HammingWindow": (25 / 46, 21 / 46, 0), "BlackmanWindow": (0.42, 0.5, 0.08)}
    for size in (2, 7):
        angle = 2 * np.pi * np.arange(size) / (size if periodic else size - 1)
        first, second, third = terms[name]
        expected = [first - second * np.cos(angle) + third * np.cos(2 * angle)]
        check_node(name, [], [np.array(size)], output_datatype=11, periodic=periodic, expected=expected, rtol=1e-12)
