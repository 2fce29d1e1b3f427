"""L2_NORMALIZATION; of 8 bits with the reciprocal of the root by Newton's method in fixed point."""

from __future__ import annotations

from tilewright.frontend.idioms import cast, constant, like
from tilewright.frontend.tflite.activation import activated
from tilewright.frontend.tflite.fixed_point import centred, multiply_each
from tilewright.frontend.tflite.node import Node
from tilewright.frontend.tflite.normalization import high_product, leading_zeros
from tilewright.frontend.tflite.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_MOST = (1 << 31) - 1


@converts("L2_NORMALIZATION")
def convert_l2_normalization(node: Node) -> Expr:
    if node.is_quantized():
        if node.dtype() == "int16":
            node.unsupported("quantized tensors of int16")
        return _of_8_bits(node)
    x = node[0]
    norm = op.sqrt(op.sum(op.multiply(x, x), axis=-1, keepdims=True))
    return activated(node, op.divide(x, op.maximum(norm, like(1e-6, x))))


def _of_8_bits(node: Node) -> Expr:
    """In steps of 1/128: unsigned codes are multiplied by 128 first, signed ones by the shift, which rounds less."""
    x = centred(node, 0)
    multiplier, shift = _inverse_sqrt(op.sum(op.multiply(x, x), axis=-1, keepdims=True))
    wide = cast(x, "int64")
    if node.dtype() == "uint8":
        value = multiply_each(op.left_shift(wide, constant(7, "int64")), multiplier, shift)
        return cast(op.clip(op.add(value, constant(128, "int64")), 0, 255), "uint8")
    return cast(op.clip(multiply_each(wide, multiplier, op.add(shift, constant(7, "int64"))), -128, 127), "int8")


def _inverse_sqrt(value: Expr) -> tuple[Expr, Expr]:
    """`math.inverse_sqrt` of an expression, int32 sums: (multiplier, shift), both int64."""
    one, two = constant(1, "int64"), constant(2, "int64")
    large = op.greater_equal(value, constant(1 << 29, "int32"))
    pairs = op.subtract(op.right_shift(op.subtract(leading_zeros(op.maximum(value, like(1, value))), one), one), one)
    pairs = op.where(large, constant(0, "int64"), pairs)
    right = op.subtract(op.where(large, constant(12, "int64"), constant(11, "int64")), pairs)
    wide = cast(value, "int64")
    wide = op.where(large, op.right_shift(wide, two), op.left_shift(wide, op.left_shift(pairs, one)))
    halved = op.right_shift(op.add(op.right_shift(wide, one), one), one)
    x: Expr = constant(1 << 28, "int64")
    for _ in range(5):
        cube = _rescaled(high_product(high_product(x, x), x), 6)
        step = op.subtract(high_product(constant(3 << 27, "int64"), x), high_product(halved, cube))
        x = _rescaled(step, 3)
    x = high_product(x, constant(1518500250, "int64"))
    x = op.left_shift(x, op.maximum(op.negative(right), constant(0, "int64")))
    small = op.less_equal(value, like(1, value))
    shift = op.minimum(op.negative(right), constant(0, "int64"))
    return op.where(small, constant(_MOST, "int64"), x), op.where(small, constant(0, "int64"), shift)


def _rescaled(value: Expr, places: int) -> Expr:
    return op.clip(op.left_shift(value, constant(places, "int64")), -(1 << 31), _MOST)
