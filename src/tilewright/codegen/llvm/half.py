"""float16 from and to float32 in integer arithmetic, for processors that do not convert it themselves.

A float16 has 5 bits of exponent with bias 15 and 10 of fraction, a float32 8 with bias 127 and 23 (IEEE 754). Values
keep their position within the wider pattern; only the bias, subnormal numbers, infinities and NaN need more than a
shift."""

from __future__ import annotations

from tilewright.codegen.llvm.builder import FunctionBuilder, Value
from tilewright.codegen.llvm.types import float_constant, register_type, splat
from tilewright.support.dtype import DType

_SHIFT = 23 - 10
_EXPONENT = 0x1F << 23  # all ones in a float16, at a float32's position
_REBIAS = (127 - 15) << 23
_SMALLEST_NORMAL = (127 - 14) << 23  # 2^-14, below which a float16 is subnormal
_OVERFLOW = (127 + 16) << 23  # 2^16
_INFINITY = 0xFF << 23
_ONE_HALF = 126 << 23  # the unit in the last place of a float32 at 0.5 is that of a subnormal float16


class _Words:
    """Operations on 32-bit words, `lanes` at a time; constants are Python integers."""

    def __init__(self, b: FunctionBuilder, lanes: int) -> None:
        self.b = b
        self.word = DType("int32").with_lanes(lanes)
        self.float = DType("float32").with_lanes(lanes)
        self.ints, self.floats = register_type(self.word), register_type(self.float)
        self.patterns = register_type(DType("int16").with_lanes(lanes))
        self.bools = register_type(DType("bool").with_lanes(lanes))

    def constant(self, number: int) -> str:
        return splat(self.word, str(number))

    def apply(self, operation: str, x: Value, y: Value | int) -> Value:
        """`x operation y` of words: "and", "add", "shl", "icmp ugt", …"""
        if isinstance(y, int):
            return self.b.define(f"{operation} {self.ints} {x.text}, {self.constant(y)}", x)
        return self.b.define(f"{operation} {self.ints} {x.text}, {y.text}", x, y)

    def as_float(self, operation: str, x: Value, y: float) -> Value:
        """The pattern of the float32 `x operation y` ("fadd" or "fsub"), `x` given by its pattern."""
        real = self.b.define(f"bitcast {self.ints} {x.text} to {self.floats}", x)
        other = splat(self.float, float_constant(DType("float32"), y))
        result = self.b.define(f"{operation} {self.floats} {real.text}, {other}", real)
        return self.b.define(f"bitcast {self.floats} {result.text} to {self.ints}", result)

    def select(self, condition: Value, x: Value, y: Value | int) -> Value:
        """`x` where `condition` holds, else `y`."""
        text = self.constant(y) if isinstance(y, int) else y.text
        operands = (condition, x) if isinstance(y, int) else (condition, x, y)
        return self.b.define(
            f"select {self.bools} {condition.text}, {self.ints} {x.text}, {self.ints} {text}", *operands
        )


def widen_half(b: FunctionBuilder, value: Value, lanes: int) -> Value:
    """The float32 of float16 patterns, exact."""
    words = _Words(b, lanes)
    bits = b.define(f"zext {words.patterns} {value.text} to {words.ints}", value)
    magnitude = words.apply("shl", words.apply("and", bits, 0x7FFF), _SHIFT)
    exponent = words.apply("and", magnitude, _EXPONENT)
    normal = words.apply("add", magnitude, _REBIAS)
    infinite = words.apply("add", normal, _REBIAS)
    # As an exponent of 1 without the leading one that this implies.
    subnormal = words.as_float("fsub", words.apply("add", normal, 1 << 23), 2.0**-14)
    result = words.select(words.apply("icmp eq", exponent, _EXPONENT), infinite, normal)
    result = words.select(words.apply("icmp eq", exponent, 0), subnormal, result)
    sign = words.apply("shl", words.apply("and", bits, 0x8000), 16)
    result = words.apply("or", result, sign)
    return b.define(f"bitcast {words.ints} {result.text} to {words.floats}", result)


def narrow_half(b: FunctionBuilder, value: Value, lanes: int) -> Value:
    """Float32 values rounded to nearest, ties to even, as float16 patterns; NaN stays one."""
    words = _Words(b, lanes)
    bits = b.define(f"bitcast {words.floats} {value.text} to {words.ints}", value)
    magnitude = words.apply("and", bits, 0x7FFFFFFF)
    odd = words.apply("and", words.apply("lshr", magnitude, _SHIFT), 1)
    rounded = words.apply("add", words.apply("add", magnitude, (1 << (_SHIFT - 1)) - 1 - _REBIAS), odd)
    normal = words.apply("lshr", rounded, _SHIFT)
    subnormal = words.apply("sub", words.as_float("fadd", magnitude, 0.5), _ONE_HALF)
    nan = words.apply("icmp ugt", magnitude, _INFINITY)
    quiet = b.define(f"select {words.bools} {nan.text}, {words.ints} {words.constant(0x7E00)}, "
                     f"{words.ints} {words.constant(0x7C00)}", nan)  # fmt: skip
    result = words.select(words.apply("icmp ult", magnitude, _SMALLEST_NORMAL), subnormal, normal)
    result = words.select(words.apply("icmp uge", magnitude, _OVERFLOW), quiet, result)
    sign = words.apply("lshr", words.apply("and", bits, 0x80000000), 16)
    result = words.apply("or", result, sign)
    return b.define(f"trunc {words.ints} {result.text} to {words.patterns}", result)
