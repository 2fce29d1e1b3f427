"""Operators that compute each element by itself, called as their schemas say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto as T

from bench.fuzz.draft import Draft, Rejected, Value
from bench.fuzz.values import FLOATS, INTEGERS, NARROW, bounds, is_float, numpy_type

UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf",
    "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish",
    "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus",
    "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu",
)  # fmt: skip
BINARY = (
    "Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual",
    "Mul", "Or", "PRelu", "Sub", "SwiGLU", "Xor",
)  # fmt: skip
VARIADIC = ("Max", "Mean", "Min", "Sum")

#: The attributes of operators of one input, and what draws them.
_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "Celu": ("alpha",), "Elu": ("alpha",), "LeakyRelu": ("alpha",), "ThresholdedRelu": ("alpha",), "Swish": ("alpha",),
    "HardSigmoid": ("alpha", "beta"), "Selu": ("alpha", "gamma"), "Shrink": ("bias", "lambd"), "SwiGLU": ("alpha",),
}  # fmt: skip


def _numbers(draw: Draft, operator: str) -> dict[str, float]:
    names = _ATTRIBUTES.get(operator, ())
    return {name: float(np.float32(draw.rng.uniform(0.1, 2))) for name in names if draw.chance(0.6)}


def unary(draw: Draft, operator: str) -> None:
    """An operator of one input."""
    data = draw.operand([draw.element(operator)])
    attributes: dict[str, object] = dict(_numbers(draw, operator))
    if operator == "Gelu":
        attributes["approximate"] = draw.choice(["none", "tanh"])
    if operator == "IsInf":
        attributes = {"detect_negative": draw.integer(0, 1), "detect_positive": draw.integer(0, 1)}
    # Shrink is a difference in float64, which does not hold the ends of 64 bits.
    wide = operator == "Shrink" and data.array.dtype.kind in "iu" and data.array.dtype.itemsize == 8
    undefined = wide and bool((np.abs(data.array.astype(np.float64)) > 2.0**53).any())
    draw.emit(operator, [data], undefined=undefined, **attributes)


def binary(draw: Draft, operator: str) -> None:
    """An operator of two inputs that broadcast; the slope of PRelu broadcasts to the data only."""
    data = draw.operand([draw.element(operator)])
    other = draw.partner(data)
    pair = [data, other] if operator == "PRelu" or draw.chance(0.5) else [other, data]
    draw.emit(operator, pair, **_numbers(draw, operator))


def variadic(draw: Draft, operator: str) -> None:
    """An operator of one input or more."""
    values = [draw.operand([draw.element(operator)])]
    for _ in range(draw.integer(0, 3)):
        values.append(draw.partner(draw.choice(values)))
    draw.rng.shuffle(values)
    draw.emit(operator, values)


def divide(draw: Draft, operator: str) -> None:
    """Div and Mod: of integers by what is not zero, nor the least by -1; Mod of floats as C has it."""
    data = draw.operand([draw.element(operator)])
    divisor = draw.partner(data)
    attributes = {}
    if operator == "Mod":
        attributes["fmod"] = 1 if is_float(data.element) else draw.integer(0, 1)
    if not is_float(data.element):
        least = bounds(data.element)[0]
        if (divisor.array == 0).any() or (least < 0 and (data.array == least).any() and (divisor.array == -1).any()):
            raise Rejected("the quotient is not defined")
    draw.emit(operator, [data, divisor], **attributes)


def power(draw: Draft, operator: str) -> None:
    """Pow of numbers of any two types; of integers where the exponent is not negative and the power fits."""
    elements = draw.elements(operator, min(1, draw.since(operator) // 12))
    data = draw.operand([draw.element(operator)])
    exponent = draw.partner(data, [data.element] if draw.since(operator) < 12 else elements, kind="whole")
    if not is_float(data.element):
        with np.errstate(all="ignore"):
            exact = np.power(data.array.astype(np.float64), exponent.array.astype(np.float64))
        if not np.isfinite(exact).all() or (np.abs(exact) > min(bounds(data.element)[1], 2**52)).any():
            raise Rejected("the power does not fit")
        if is_float(exponent.element) and (exponent.array != np.round(exponent.array)).any():
            raise Rejected("the power is rounded")
        if (exponent.array.astype(np.float64) < 0).any():
            raise Rejected("the power is a fraction")
    draw.emit(operator, [data, exponent])


def shift(draw: Draft, operator: str) -> None:
    """BitShift by less than the width."""
    data = draw.operand([draw.element(operator)])
    amount = draw.partner(data)
    width = numpy_type(data.element).itemsize * 8
    if (amount.array.astype(object) >= width).any() or (amount.array < 0).any():
        raise Rejected("shifted by the width")
    draw.emit(operator, [data, amount], direction=draw.choice(["LEFT", "RIGHT"]))


def where(draw: Draft, operator: str) -> None:
    """The operator Where on three values that broadcast."""
    data = draw.operand([draw.element(operator, 1)])
    other, condition = draw.partner(data), draw.partner(data, [T.BOOL])
    draw.emit(operator, [condition, data, other])


def clip(draw: Draft, operator: str) -> None:
    """Clip between bounds of which either may be missing: attributes to opset 6, inputs later."""
    data = draw.operand([draw.element(operator)])
    if draw.since(operator) < 11:
        draw.emit(operator, [data], min=float(draw.integer(-3, 0)), max=float(draw.integer(0, 3)))
        return
    ends: list[Value | None] = [draw.leaf(data.element, ()) if draw.chance(0.7) else None for _ in range(2)]
    low, high = (end.array.astype(np.float64) if end else None for end in ends)
    if low is not None and high is not None and not low <= high:
        raise Rejected("no number lies between the bounds")
    if any(end is not None and np.isnan(end) for end in (low, high)):
        raise Rejected("NaN is no bound")
    draw.emit(operator, [data, *ends])


def held(array: np.ndarray, element: int) -> bool:
    """True if the numbers of an array are in the range of an element type, so that a cast to it is defined."""
    if array.dtype.kind == "O":
        return False
    if element == T.FLOAT8E8M0:  # powers of two alone
        return bool((array.astype(np.float64) > 0).all())
    if is_float(element) or element == T.BOOL or array.dtype.kind == "b":
        return True
    number = array.astype(np.float64)
    least, greatest = bounds(element)
    if is_float(T.FLOAT) and array.dtype.kind in "iu":
        return True  # integers wrap
    return bool(np.isfinite(number).all() and (np.trunc(number) >= least).all() and (np.trunc(number) < greatest).all())


def cast(draw: Draft, operator: str) -> None:
    """Cast and CastLike; where a number does not fit the type, the result is not defined."""
    index = 1 if operator == "CastLike" else 0
    targets = [e for e in (*FLOATS, *INTEGERS, T.BOOL, *NARROW) if e in _targets(draw)]
    data = draw.operand([e for e in draw.elements(operator) if e != T.STRING])
    element = draw.choice(targets)
    fits = held(data.array, element)
    if not fits and draw.chance(0.8):
        raise Rejected("a number does not fit")
    saturate = None if draw.chance(0.7) else draw.integer(0, 1)
    like = [draw.operand([element])] if index else []
    draw.emit(operator, [data, *like], undefined=not fits, saturate=saturate, **({} if index else {"to": element}))


def _targets(draw: Draft) -> list[int]:
    """The types that Cast returns at this opset."""
    texts = draw.schema("Cast").outputs[0].types
    return [e for e in draw.elements("Cast") if f"tensor({T.DataType.Name(e).lower()})" in texts]


def bit_cast(draw: Draft, operator: str) -> None:
    """BitCast to a type of the same width; which of its bit patterns a computed NaN has, is open."""
    data = draw.operand([e for e in draw.elements(operator) if e in (*FLOATS, *INTEGERS)])
    width = numpy_type(data.element).itemsize
    undefined = is_float(data.element) and bool(np.isnan(data.array.astype(np.float64)).any())
    to = draw.choice(e for e in (*FLOATS, *INTEGERS) if numpy_type(e).itemsize == width)
    draw.emit(operator, [data], undefined=undefined, to=to)


def dropout(draw: Draft, operator: str) -> None:
    """Dropout as it is at inference."""
    data = draw.operand([draw.element(operator)])
    masks = [True, draw.since(operator) >= 12 and draw.chance(0.4)]  # what older masks are, ONNX does not say
    if draw.since(operator) < 12:
        draw.emit(operator, [data], masks, ratio=0.25)
        return
    ratio = draw.known(np.float32(0.25)) if draw.chance(0.5) else None
    training = draw.constant(np.array(False)) if draw.chance(0.5) else None
    draw.emit(operator, [data, ratio, training], masks)


FAMILY: dict[str, Callable[[Draft, str], None]] = {
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, binary),
    **dict.fromkeys(VARIADIC, variadic),
    "Div": divide, "Mod": divide, "Pow": power, "BitShift": shift, "Where": where, "Clip": clip, "Cast": cast,
    "CastLike": cast, "BitCast": bit_cast, "Dropout": dropout,
}  # fmt: skip
