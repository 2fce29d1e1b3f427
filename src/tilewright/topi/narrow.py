"""Casts from and to narrow types: float8, float4 and integers of 2 and 4 bits, all kept one element a byte.

Codes are taken apart and put together with integer arithmetic on whole vectors; no table is read. Out of range, the
floats behave as in `ml_dtypes`: to infinity where the format has one, to NaN where it has that, else to the largest
value; integers keep their low bits. Formats: https://onnx.ai/onnx/technical/float8.html and the OCP MX specification.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright import tir
from tilewright.support.dtype import DType


@dataclass(frozen=True)
class FloatFormat:
    """A narrow float: sign, `exponent` and `mantissa` bits, and the codes of what is no finite number.

    `nan` and `infinity` are the codes of the positive ones (None: there is none). `negative_zero` is False where the
    code of -0 means NaN.
    """

    exponent: int
    mantissa: int
    bias: int
    largest: int
    nan: int | None
    infinity: int | None = None
    negative_zero: bool = True

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.exponent + self.mantissa)


FLOATS: dict[str, FloatFormat] = {
    "float8_e4m3fn": FloatFormat(4, 3, 7, 0x7E, 0x7F),
    "float8_e4m3fnuz": FloatFormat(4, 3, 8, 0x7F, 0x80, negative_zero=False),
    "float8_e5m2": FloatFormat(5, 2, 15, 0x7B, 0x7E, 0x7C),
    "float8_e5m2fnuz": FloatFormat(5, 2, 16, 0x7F, 0x80, negative_zero=False),
    "float4_e2m1fn": FloatFormat(2, 1, 1, 0x7, None),
}
_INTEGERS = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}
_FLOAT32_MANTISSA, _FLOAT32_BIAS, _FLOAT32_INFINITY, _FLOAT32_NAN = 23, 127, 0x7F800000, 0x7FC00000


def decode(dtype: DType) -> Callable[[Any], Any]:
    """A function from an expression of the narrow `dtype` to its value, exact: float32, or int32 of an integer."""
    if dtype in _INTEGERS:
        return lambda v: _decode_integer(dtype, v)
    if dtype == "float8_e8m0fnu":
        return _decode_exponent
    return lambda v: _decode_float(FLOATS[dtype], v)


def encode(dtype: DType) -> Callable[[Any], Any]:
    """A function from a float or integer expression to the nearest value (ties to even) of the narrow `dtype`."""
    if dtype in _INTEGERS:
        mask = (1 << _INTEGERS[dtype]) - 1
        return lambda v: _stored(dtype, _and(v.astype("int32"), mask))
    if dtype == "float8_e8m0fnu":
        return lambda v: _encode_exponent(dtype, v.astype("float32"))
    return lambda v: _encode_float(dtype, FLOATS[dtype], v.astype("float32"))


def stored_constant(code: int, dtype: DType) -> Any:
    """The constant of `dtype` whose byte is `code`."""
    return tir.reinterpret(dtype, tir.const(code, "uint8"))


def _int(value: int) -> Any:
    return tir.const(value, "int32")


def _and(a: Any, mask: int) -> Any:
    return tir.call_intrin("int32", "bitwise_and", a, _int(mask))


def _or(a: Any, b: Any) -> Any:
    return tir.call_intrin("int32", "bitwise_or", a, b)


def _xor(a: Any, mask: int) -> Any:
    return tir.call_intrin("int32", "bitwise_xor", a, _int(mask))


def _left(a: Any, positions: int) -> Any:
    return tir.call_intrin("int32", "shift_left", a, _int(positions))


def _right(a: Any, positions: int) -> Any:
    return tir.call_intrin("int32", "shift_right", a, _int(positions))


def _code(v: Any) -> Any:
    return tir.reinterpret("uint8", v).astype("int32")


def _stored(dtype: DType, code: Any) -> Any:
    return tir.reinterpret(dtype, code.astype("uint8"))


def _decode_integer(dtype: DType, v: Any) -> Any:
    bits = _INTEGERS[dtype]
    code = _and(_code(v), (1 << bits) - 1)
    if dtype.startswith("u"):
        return code
    half = 1 << (bits - 1)
    return _xor(code, half) - _int(half)


def _decode_exponent(v: Any) -> Any:
    """2 ** (code - 127); 255 is NaN."""
    code = _code(v)
    pattern = tir.select(tir.eq(code, _int(0)), _int(1 << 22), _left(code, _FLOAT32_MANTISSA))
    return tir.reinterpret("float32", tir.select(tir.eq(code, _int(255)), _int(_FLOAT32_NAN), pattern))


def _decode_float(form: FloatFormat, v: Any) -> Any:
    """The bits moved to their positions in a float32, whose exponent a multiplication then corrects."""
    code = _code(v)
    magnitude = _and(code, form.sign - 1)
    shifted = _left(magnitude, _FLOAT32_MANTISSA - form.mantissa)
    value = tir.reinterpret("float32", shifted) * tir.const(2.0 ** (_FLOAT32_BIAS - form.bias), "float32")
    bits = tir.reinterpret("int32", value)
    if form.infinity is not None:
        infinity = _int(form.infinity)
        special = tir.select(tir.eq(magnitude, infinity), _int(_FLOAT32_INFINITY), _int(_FLOAT32_NAN))
        bits = tir.select(magnitude < infinity, bits, special)
    elif form.nan is not None:
        compared = magnitude if form.negative_zero else code
        bits = tir.select(tir.eq(compared, _int(form.nan)), _int(_FLOAT32_NAN), bits)
    sign = tir.select(tir.eq(_and(code, form.sign), _int(0)), _int(0), _int(-(1 << 31)))
    return tir.reinterpret("float32", _or(bits, sign))


def _encode_float(dtype: DType, form: FloatFormat, v: Any) -> Any:
    bits = tir.reinterpret("int32", v)
    magnitude = _and(bits, 0x7FFFFFFF)
    code = _round(form, magnitude)
    beyond = form.infinity if form.infinity is not None else form.largest if form.nan is None else form.nan
    code = tir.select(code > _int(form.largest), _int(beyond), code)
    is_nan = magnitude > _int(_FLOAT32_INFINITY)
    sign = tir.select(bits < _int(0), _int(form.sign), _int(0))
    if form.nan is None:
        # There is no NaN to return: the zero of the other sign stands for it, as in ml_dtypes.
        return _stored(dtype, tir.select(is_nan, _xor(sign, form.sign), _or(code, sign)))
    code = tir.select(is_nan, _int(form.nan), code)
    if form.negative_zero:
        return _stored(dtype, _or(code, sign))
    return _stored(dtype, tir.select(tir.eq(code, _int(0)), code, _or(code, sign)))


def _round(form: FloatFormat, magnitude: Any) -> Any:
    """The code of a float32 whose bits without sign are `magnitude`, as if there were exponents without end."""
    drop = _FLOAT32_MANTISSA - form.mantissa
    odd = _and(_right(magnitude, drop), 1)
    normal = _right(magnitude + odd + _int((1 << (drop - 1)) - 1), drop)
    normal = normal - _int((_FLOAT32_BIAS - form.bias) << form.mantissa)
    # Adding a power of two whose last bit weighs as much as the smallest subnormal leaves the rounded count of those.
    pivot = tir.const(2.0 ** (_FLOAT32_MANTISSA + 1 - form.bias - form.mantissa), "float32")
    counted = tir.reinterpret("int32", tir.reinterpret("float32", magnitude) + pivot)
    subnormal = counted - tir.reinterpret("int32", pivot)
    smallest_normal = (_FLOAT32_BIAS + 1 - form.bias) << _FLOAT32_MANTISSA
    return tir.select(magnitude < _int(smallest_normal), subnormal, normal)


def _encode_exponent(dtype: DType, v: Any) -> Any:
    """The nearest power of two, ties upwards; what is no positive finite number is NaN."""
    bits = tir.reinterpret("int32", v)
    rounded = _right(bits + _int(1 << 22), _FLOAT32_MANTISSA)
    code = tir.select(bits > _int(0), tir.minimum(rounded, _int(255)), _int(255))
    return _stored(dtype, tir.select(bits < _int(_FLOAT32_INFINITY), code, _int(255)))
