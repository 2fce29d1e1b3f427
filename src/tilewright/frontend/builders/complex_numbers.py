"""Complex tensors as pairs of real ones, which is what programs that compute with them become."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.frontend.builders.fourier import complex_transform
from tilewright.frontend.builders.functions import atan2
from tilewright.frontend.idioms import cast, constant, dtype_of, rank_of, shape_of, swap_axes
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, Tuple


@dataclass(frozen=True, eq=False)
class Complex:
    """A complex tensor by its parts, which are of one shape and element type."""

    real: Expr
    imaginary: Expr

    def map(self, change: Callable[[Expr], Expr]) -> Complex:
        """A function of each part."""
        return Complex(change(self.real), change(self.imaginary))

    @property
    def parts(self) -> tuple[Expr, Expr]:
        """The real and the imaginary part."""
        return self.real, self.imaginary


def of_real(value: Expr) -> Complex:
    """A real tensor as a complex one."""
    return Complex(value, op.zeros_like(value))


def of_last_axis(value: Expr) -> Complex:
    """The complex tensor that a real one holds with the parts in its last axis, as interfaces lay it out."""
    last = rank_of(value) - 1
    first, second = (
        op.strided_slice(value, begin=(position,), end=(position + 1,), strides=(1,), axes=(last,))
        for position in (0, 1)
    )
    return Complex(op.squeeze(first, axis=(last,)), op.squeeze(second, axis=(last,)))


def to_last_axis(value: Complex) -> Expr:
    """Both parts in a new last axis."""
    return op.stack(Tuple(value.parts), axis=rank_of(value.real))


def multiply(a: Complex, b: Complex) -> Complex:
    """The product of elements."""
    return Complex(a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real)


def conjugate(value: Complex) -> Complex:
    """The imaginary part with the other sign."""
    return Complex(value.real, -value.imaginary)


def divide(a: Complex, b: Complex) -> Complex:
    """The quotient of elements; the divisor is scaled by its larger part, whose square may be out of range."""
    scale = op.maximum(op.abs(b.real), op.abs(b.imaginary))
    real, imaginary = b.real / scale, b.imaginary / scale
    size = scale * (real * real + imaginary * imaginary)
    made = multiply(a, Complex(real, -imaginary))
    return Complex(made.real / size, made.imaginary / size)


def magnitude(value: Complex) -> Expr:
    """The absolute value; parts are scaled by the larger one, whose square may be out of range."""
    first, second = op.abs(value.real), op.abs(value.imaginary)
    largest, least = op.maximum(first, second), op.minimum(first, second)
    zero = constant(0, dtype_of(largest))
    ratio = least / op.where(op.equal(largest, zero), op.ones_like(largest), largest)
    return largest * op.sqrt(constant(1, dtype_of(largest)) + ratio * ratio)


def angle(value: Complex) -> Expr:
    """The angle from the real axis, between -pi and pi."""
    return atan2(value.imaginary, value.real)


def of_polar(length: Expr, turn: Expr) -> Complex:
    """The number of this absolute value and angle."""
    return Complex(length * op.cos(turn), length * op.sin(turn))


def exponential(value: Complex) -> Complex:
    """e to the power of each element."""
    return of_polar(op.exp(value.real), value.imaginary)


def logarithm(value: Complex, base: float = math.e) -> Complex:
    """The logarithm whose imaginary part is the angle."""
    scale = constant(1 / math.log(base), dtype_of(value.real))
    return Complex(op.log(magnitude(value)) * scale, angle(value) * scale)


def square_root(value: Complex) -> Complex:
    """The root with a real part that is not negative."""
    size = magnitude(value)
    half = constant(0.5, dtype_of(size))
    zero = constant(0, dtype_of(size))
    real, imaginary = (op.sqrt(op.maximum(half * part, zero)) for part in (size + value.real, size - value.real))
    return Complex(real, op.where(value.imaginary < zero, -imaginary, imaginary))


def power(base: Complex, exponent: Complex) -> Complex:
    """`base` to the power of `exponent`; 0 to that of anything but 0 is 0."""
    made = exponential(multiply(logarithm(base), exponent))
    zero = constant(0, dtype_of(made.real))
    nothing = op.equal(magnitude(base), zero)
    one = op.cast(op.equal(magnitude(exponent), zero), dtype=dtype_of(made.real))
    return Complex(op.where(nothing, one, made.real), op.where(nothing, zero, made.imaginary))


def transformed(value: Complex, axes: Sequence[int], inverse: bool, scale: float) -> Complex:
    """The Fourier transform along axes, its sums times `scale`."""
    for axis in axes:
        extent = shape_of(value.real)[axis]
        last = rank_of(value.real) - 1
        real, imaginary = (swap_axes(part, axis, last) for part in value.parts)
        made = complex_transform(real, imaginary, inverse)
        value = Complex(*(swap_axes(part, axis, last) for part in made))
        scale = scale * extent if inverse else scale
    return scaled(value, scale)


def scaled(value: Complex, factor: float) -> Complex:
    """Both parts times a number."""
    if factor == 1:
        return value
    return Complex(*(part * constant(factor, dtype_of(part)) for part in value.parts))


def as_type(value: Complex, dtype: str) -> Complex:
    """Both parts in an element type."""
    return Complex(cast(value.real, dtype), cast(value.imaginary, dtype))
