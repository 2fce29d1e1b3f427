"""Fourier transforms whose results are read as real numbers: complex tensors are pairs of real and imaginary parts."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.complex_numbers import Complex, angle, conjugate, magnitude
from tilewright.frontend.fourier import complex_transform, real_inverse, real_transform
from tilewright.frontend.tensorflow.node import TfNode
from tilewright.frontend.tensorflow.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def _complex(node: TfNode, index: int = 0) -> Complex:
    value = node.values[index]
    if not isinstance(value, Complex):
        node.unsupported(f"its input {index} is not complex")
    return value


@converts("RFFT")
def convert_rfft(node: TfNode) -> Complex:
    return Complex(*real_transform(node[0], node.ints(1, "length")[0]))


@converts("IRFFT")
def convert_irfft(node: TfNode) -> Expr:
    value = _complex(node)
    return real_inverse(value.real, value.imaginary, node.ints(1, "length")[0])


@converts("FFT", "IFFT")
def convert_fft(node: TfNode) -> Complex:
    value = _complex(node)
    return Complex(*complex_transform(value.real, value.imaginary, node.operator == "IFFT"))


@converts("Complex")
def convert_complex(node: TfNode) -> Complex:
    return Complex(node[0], node[1])


@converts("Real", "Imag", "ComplexAbs", "Conj", "Angle")
def convert_parts(node: TfNode) -> Any:
    value = node.values[0]
    if not isinstance(value, Complex):
        return node[0] if node.operator in ("Real", "Conj") else op.zeros_like(node[0])
    if node.operator == "Conj":
        return conjugate(value)
    if node.operator == "ComplexAbs":
        return magnitude(value)
    if node.operator == "Angle":
        return angle(value)
    return value.real if node.operator == "Real" else value.imaginary
