"""Inverse trigonometric functions, built from arithmetic: networks use them too rarely for operators of their own."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from tilewright.frontend.onnx.build import scalar_like
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_TAN_PI_8 = math.tan(math.pi / 8)


def _series() -> list[float]:
    """Coefficients c of atan(t) = t * sum c[k] t^2k on |t| <= tan(pi / 8), fitted at Chebyshev points."""
    square = (np.cos(np.pi * (np.arange(64) + 0.5) / 64) + 1) / 2 * _TAN_PI_8**2
    root = np.sqrt(square)
    return np.polynomial.polynomial.polyfit(square, np.arctan(root) / root, 8).tolist()


_COEFFICIENTS = _series()


def _atan(node: OnnxNode, data: Expr) -> Expr:
    """atan by reduction to |t| <= tan(pi / 8): atan(x) = pi/2 - atan(1/x) = pi/4 + atan((x - 1) / (x + 1))."""

    def number(value: float) -> Expr:
        return scalar_like(node, value, data)

    size = op.abs(data)
    large, middle = op.greater(size, number(1 / _TAN_PI_8)), op.greater(size, number(_TAN_PI_8))
    shifted = op.divide(op.subtract(size, number(1)), op.add(size, number(1)))
    reduced = op.where(large, op.divide(number(-1), size), op.where(middle, shifted, size))
    start = op.where(large, number(math.pi / 2), op.where(middle, number(math.pi / 4), number(0)))
    square = op.multiply(reduced, reduced)
    series = reduce(
        lambda total, coefficient: op.add(op.multiply(total, square), number(coefficient)),
        _COEFFICIENTS[-2::-1],
        number(_COEFFICIENTS[-1]),
    )
    angle = op.add(start, op.multiply(reduced, series))
    return op.where(op.less(data, number(0)), op.negative(angle), angle)


def _asin(node: OnnxNode, data: Expr) -> Expr:
    """atan(x / sqrt((1 - x) * (1 + x))); at the ends the quotient is infinite, as atan expects."""
    one = scalar_like(node, 1, data)
    return _atan(node, op.divide(data, op.sqrt(op.multiply(op.subtract(one, data), op.add(one, data)))))


@converts("Atan", since=7)
def convert_atan(node: OnnxNode) -> Expr:
    """Arc tangent."""
    return _atan(node, node[0])


@converts("Asin", since=7)
def convert_asin(node: OnnxNode) -> Expr:
    """Arc sine."""
    return _asin(node, node[0])


@converts("Acos", since=7)
def convert_acos(node: OnnxNode) -> Expr:
    """pi/2 - asin(x)."""
    return op.subtract(scalar_like(node, math.pi / 2, node[0]), _asin(node, node[0]))
