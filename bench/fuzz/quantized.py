"""Quantized operators: codes with scales and zero points, for all elements or along an axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto as T

from bench.fuzz.convolutions import image, window
from bench.fuzz.draft import Draft, Rejected, Value
from bench.fuzz.values import NARROW, is_float, numpy_type

_BYTES = (T.UINT8, T.INT8)


def scale(draw: Draft, shape: tuple[int, ...] = (), element: int = T.FLOAT) -> Value:
    """A scale, or one for each of several."""
    drawn = np.array([draw.choice([0.5, 0.25, 1.0, 0.1, 0.03]) for _ in range(int(np.prod(shape)))])
    return draw.known(drawn.reshape(shape).astype(numpy_type(element)))


def zero_point(draw: Draft, element: int, shape: tuple[int, ...] = ()) -> Value:
    """A zero point of an element type, or one for each of several; 0 where the type has no other."""
    kind = numpy_type(element)
    if is_float(element) or element == T.INT32:
        return draw.known(np.zeros(shape, kind))
    return draw.leaf(element, shape, "positive")


def _granularity(draw: Draft, operator: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int | None]:
    """The shape of scales and the axis that they go along: one for all, or one for each slice."""
    if not shape or draw.since(operator) < 13 or draw.chance(0.5):
        return (), None
    axis = draw.axis(len(shape))
    return (shape[axis],), axis


def quantize(draw: Draft, operator: str) -> None:
    """QuantizeLinear to each type that the opset has."""
    element = draw.element(operator, only=(T.FLOAT, T.FLOAT16, T.INT32, T.BFLOAT16))
    data = draw.operand([element], fits=lambda v: 0 not in v.shape)
    if is_float(element) and not np.isfinite(data.array.astype(np.float64)).all():
        raise Rejected("no code stands for it")
    targets = draw.elements(operator, 2)
    target = T.UINT8 if draw.chance(0.3) else draw.choice(targets)
    shape, axis = _granularity(draw, operator, data.shape)
    scales = scale(draw, shape, T.FLOAT if element == T.INT32 or draw.since(operator) < 19 else element)
    zero = zero_point(draw, target, shape) if target != T.UINT8 or draw.chance(0.6) else None
    draw.emit(operator, [data, scales, zero], axis=axis)


def dequantize(draw: Draft, operator: str) -> None:
    """DequantizeLinear of each type that the opset has."""
    element = draw.choice(draw.elements(operator))
    data = draw.operand([element], fits=lambda v: 0 not in v.shape, kind="small" if element in NARROW else None)
    shape, axis = _granularity(draw, operator, data.shape)
    scales = scale(draw, shape, T.FLOAT if draw.since(operator) < 19 else draw.choice([T.FLOAT, T.FLOAT, T.FLOAT16]))
    zero = zero_point(draw, element, shape) if draw.chance(0.5) else None
    draw.emit(operator, [data, scales, zero], axis=axis)


def dynamic_quantize(draw: Draft, operator: str) -> None:
    """DynamicQuantizeLinear of finite numbers."""
    data = draw.operand([T.FLOAT], fits=lambda v: v.array.size > 0)
    if not np.isfinite(data.array).all() or np.ptp(data.array) < 1e-3 or np.abs(data.array).max() > 1e6:
        raise Rejected("no scale stands for it")
    draw.emit(operator, [data], 3)


def mat_mul_integer(draw: Draft, operator: str) -> None:
    """MatMulInteger with zero points missing, for all, or for each row or column."""
    left = draw.operand([draw.choice(_BYTES)], fits=lambda v: v.rank >= 2)
    columns = draw.integer(1, 9)
    right = draw.operand([draw.choice(_BYTES)], shape=(left.shape[-1], columns))
    first = zero_point(draw, left.element) if draw.chance(0.5) else None
    shape = (columns,) if draw.chance(0.3) else ()
    second = zero_point(draw, right.element, shape) if draw.chance(0.5) else None
    draw.emit(operator, [left, right, first, second])


def qlinear_mat_mul(draw: Draft, operator: str) -> None:
    """QLinearMatMul, its scales for all or for each column."""
    left = draw.operand([draw.choice(_BYTES)], fits=lambda v: v.rank >= 2 and 0 not in v.shape)
    columns = draw.integer(1, 9)
    right = draw.operand([draw.choice(_BYTES)], shape=(left.shape[-1], columns))
    shape = (columns,) if draw.chance(0.3) else ()
    target = draw.choice(_BYTES)
    draw.emit(
        operator,
        [
            *(left, scale(draw), zero_point(draw, left.element)),
            *(right, scale(draw, shape), zero_point(draw, right.element, shape)),
            *(scale(draw), zero_point(draw, target)),
        ],
    )


def conv_integer(draw: Draft, operator: str) -> None:
    """ConvInteger and QLinearConv."""
    data = image(draw, T.UINT8 if operator == "ConvInteger" else draw.choice(_BYTES), ranks=(3, 4, 4))
    attributes = window(draw, data.shape[2:], operator)
    channels = data.shape[1]
    groups = draw.choice(n for n in (1, 1, channels) if channels % n == 0)
    outputs = groups * draw.integer(1, 3)
    kernel = attributes["kernel_shape"]
    element = draw.choice(_BYTES) if operator == "ConvInteger" else draw.choice([T.INT8, data.element])
    weight = draw.operand([element], shape=(outputs, channels // groups, *kernel))
    group = groups if groups > 1 else None
    if operator == "ConvInteger":
        zeros = [zero_point(draw, v.element) if draw.chance(0.5) else None for v in (data, weight)]
        draw.emit(operator, [data, weight, *zeros], group=group, **attributes)
        return
    along = (outputs,) if draw.chance(0.4) else ()
    bias = draw.leaf(T.INT32, (outputs,), "small") if draw.chance(0.5) else None
    inputs = [data, scale(draw), zero_point(draw, data.element), weight, scale(draw, along)]
    zero = draw.known(np.zeros(along, numpy_type(element)))
    draw.emit(operator, [*inputs, zero, scale(draw), zero_point(draw, data.element), bias], group=group, **attributes)


FAMILY: dict[str, Callable[[Draft, str], None]] = {
    "QuantizeLinear": quantize, "DequantizeLinear": dequantize, "DynamicQuantizeLinear": dynamic_quantize,
    "MatMulInteger": mat_mul_integer, "QLinearMatMul": qlinear_mat_mul, "ConvInteger": conv_integer,
    "QLinearConv": conv_integer,
}  # fmt: skip
