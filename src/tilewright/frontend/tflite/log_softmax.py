"""LOG_SOFTMAX; of 8 bits by exponentials and a logarithm in fixed point, as the reference kernel computes them.

The logarithm takes the nearer of two powers of two from its argument, x and x * sqrt(1/2), and of what is left, around
2^(-1/4), a quotient of two polynomials.
"""

from __future__ import annotations

import numpy as np

from tilewright.frontend.idioms import cast, constant
from tilewright.frontend.tflite.fixed_point import (
    divide_by_power,
    divide_by_power_array,
    multiply,
    multiply_array,
    quantize_multiplier,
)
from tilewright.frontend.tflite.node import Node
from tilewright.frontend.tflite.normalization import (
    exp_of_negative,
    high_product,
    leading_zeros,
    one_over_one_plus,
    scaled_differences,
)
from tilewright.frontend.tflite.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.support.dtype import DType

_MOST = (1 << 31) - 1
#: Bits before the point of the differences and the logarithm, and of the sum.
_BITS, _SUM_BITS = 5, 12


@converts("LOG_SOFTMAX")
def convert_log_softmax(node: Node) -> Expr:
    if not node.is_quantized():
        return op.nn.log_softmax(node[0], axis=-1)
    if node.dtype() == "int16":
        node.unsupported("quantized tensors of int16")
    return _of_8_bits(node)


def _of_8_bits(node: Node) -> Expr:
    """(x - max) - log(sum of exp(x - max)) in Q5.26, then in sixteenths, of which the last code is 0."""
    factor, most = scaled_differences(node, 1.0)
    differences = np.arange(-255, 1, dtype=np.int64)
    kept = differences >= -most
    raw = np.where(kept, multiply_array(differences, *factor), 0)
    exps = np.where(kept, divide_by_power_array(exp_of_negative(raw), _SUM_BITS), 0)
    x = cast(node[0], "int32")
    difference = op.subtract(x, op.max(x, axis=-1, keepdims=True))
    place = op.add(difference, constant(255, "int32"))
    total = op.sum(op.take(constant(exps, "int32"), place, axis=0, mode="fast"), axis=-1, keepdims=True)
    logarithm = _log(total)
    back = quantize_multiplier((1 << (31 - factor[1])) / factor[0])
    reach = multiply(cast(op.subtract(logarithm, constant(1 << 31, "int64")), "int32"), *back)
    least = op.maximum(reach, constant(-most - 1, "int32"))
    low, high = (int(limit) for limit in DType(node.output().dtype).limits())
    value = op.subtract(op.take(constant(raw, "int64"), place, axis=0, mode="fast"), logarithm)
    value = op.add(divide_by_power(value, 31 - _BITS - 4), constant(high, "int64"))
    value = op.where(op.greater(difference, least), value, constant(low, "int64"))
    return cast(op.clip(value, low, high), node.output().dtype)


def _whole(value: float) -> Expr:
    """A real number of -1 to 1 in Q0.31."""
    return constant(round(value * (1 << 31)), "int64")


def _log(total: Expr) -> Expr:
    """log(x) in Q5.26, int64, of int32 numbers in Q12.19 that are 1 or more."""
    root, fraction = _whole(0.5**0.5), 31 - (_BITS + 1)
    wide, zeros, quarter = cast(total, "int64"), leading_zeros(total), constant(1 << (fraction - 2), "int64")
    one = constant(1, "int64")
    near = high_product(op.left_shift(wide, op.subtract(zeros, one)), root)
    near = op.minimum(op.left_shift(near, one), constant(_MOST, "int64"))
    far_zeros = op.subtract(leading_zeros(cast(high_product(wide, root), "int32")), one)
    far = op.minimum(op.left_shift(wide, far_zeros), constant(_MOST, "int64"))
    bits, places = constant(_SUM_BITS, "int64"), constant(fraction, "int64")
    power = op.maximum(
        op.add(op.left_shift(op.subtract(bits, zeros), places), quarter),
        op.subtract(op.left_shift(op.subtract(bits, far_zeros), places), quarter),
    )
    numerator, reciprocal = _quotient(op.minimum(near, far))
    within = op.add(high_product(power, constant(1488522236, "int64")), high_product(numerator, reciprocal))
    return op.clip(op.left_shift(within, one), -(1 << 31), _MOST)


def _quotient(x: Expr) -> tuple[Expr, Expr]:
    """Numerator in Q6.25 and reciprocal of the denominator in Q0.31 of log(x * 2^(1/4)) for x around 2^(-1/4)."""
    fourth_root = 2.0**0.25
    centre, one = _whole(1 / fourth_root), constant(1, "int64")
    middle = op.right_shift(op.add(op.add(x, centre), one), one)
    twice = op.left_shift(op.subtract(x, centre), one)
    square = high_product(twice, twice)
    cubic = high_product(high_product(twice, square), _whole(11 / 240 * fourth_root))
    numerator = divide_by_power(op.add(high_product(twice, x), cubic), _BITS + 1)
    inner = op.add(op.add(_whole(2 / fourth_root - fourth_root), twice), high_product(_whole(fourth_root / 20), square))
    less_one = op.add(high_product(middle, inner), high_product(_whole(fourth_root / 4), twice))
    return numerator, one_over_one_plus(less_one)
