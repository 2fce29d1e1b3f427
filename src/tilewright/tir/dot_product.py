"""Dot products of four bytes or of two numbers of 16 bits, added to 32-bit sums: instructions of x86 and NEON.

`dot4(acc, a, b)` is a call that the code generator spells by the target's instruction; `expand_dot4` is the same in
plain arithmetic. Both are exact: nothing saturates, sums wrap around in 32 bits as any int32 addition does.
`dp4a(acc, a, b)` is the same of GPUs, whose four bytes are a word: int32 where these have a sign, else uint32.

`dot2(acc, a, b)` is the same of two bfloat16 and sums in float32. Products are exact in float32, so only sums are
rounded; AVX512-BF16 takes denormal numbers for 0, `expand_dot2` keeps them. Of int16 the sums are int32, exact modulo
2**32.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import InternalError
from tilewright.support.dtype import DType
from tilewright.tir import op
from tilewright.tir.expr import Call, Expr

#: Bytes that one lane of a sum combines.
GROUP = 4

#: By the element type of both operands: the elements that one lane of a sum combines, and the type of the sum.
SUMS = {
    "int8": (GROUP, "int32"), "uint8": (GROUP, "int32"), "int16": (2, "int32"), "bfloat16": (2, "float32"),
    "float16": (2, "float32"),
}  # fmt: skip


def dot4(acc: Expr, a: Expr, b: Expr, in_pairs: bool = False) -> Call:
    """Lane i: acc[i] + sum over g < 4 of a[4 i + g] * b[4 i + g], of int32 lanes and four times as many bytes.

    The element types of `a` and `b`, int8 or uint8, say how the bytes are read. `in_pairs` is the caller's word that
    the sums of products 0 and 1 and of products 2 and 3 of a group fit int16, whatever the unsigned operand holds.
    """
    for bytes_ in (a, b):
        if bytes_.dtype.bits != 8 or bytes_.dtype.lanes != GROUP * acc.dtype.lanes or acc.dtype.element != "int32":
            raise InternalError(f"dot4 takes {GROUP} bytes for each int32 lane, not {bytes_.dtype} for {acc.dtype}")
    return Call(acc.dtype, "dot4_in_pairs" if in_pairs else "dot4", (acc, a, b))


def dot2(acc: Expr, a: Expr, b: Expr) -> Call:
    """Lane i: acc[i] + a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1], of twice as many bfloat16 or int16 as lanes."""
    for pairs in (a, b):
        sums = (2, str(acc.dtype.element))
        if SUMS.get(str(pairs.dtype.element)) != sums or pairs.dtype.lanes != 2 * acc.dtype.lanes:
            raise InternalError(f"dot2 takes 2 bfloat16 or int16 for each lane, not {pairs.dtype} for {acc.dtype}")
    return Call(acc.dtype, "dot2", (acc, a, b))


def expand_dot2(call: Call) -> Expr:
    """The value of a `dot2` by operations on 32-bit lanes: a bfloat16 is the upper half of a float32."""
    total, a, b = call.args
    for upper in (False, True):
        if total.dtype.element == "int32":
            total = total + _short(a, total, upper) * _short(b, total, upper)
            continue
        total = op.call_intrin(total.dtype, "fma", _half(a, total, upper), _half(b, total, upper), total)
    return total


def _half(pairs: Expr, like: Expr, upper: bool) -> Expr:
    """The first or the second of each pair of bfloat16, as float32."""
    words = DType("int32").with_lanes(like.dtype.lanes)
    word = op.call_intrin(words, "reinterpret", pairs)
    if upper:
        bits = op.call_intrin(words, "bitwise_and", word, op.const(-(1 << 16), words))
    else:
        bits = op.call_intrin(words, "shift_left", word, op.const(16, words))
    return op.call_intrin(like.dtype, "reinterpret", bits)


def _short(pairs: Expr, like: Expr, upper: bool) -> Expr:
    """The first or the second of each pair of int16, as int32."""
    word, half = op.call_intrin(like.dtype, "reinterpret", pairs), op.const(16, like.dtype)
    word = word if upper else op.call_intrin(like.dtype, "shift_left", word, half)
    return op.call_intrin(like.dtype, "shift_right", word, half)


def pair_word(low: Expr, high: Expr, dtype: str) -> Expr:
    """Two float32, rounded to a type of 16 bits, side by side as int32.

    Of bfloat16 it is a call that the code generator spells by the target's instruction, to which denormal numbers count
    as 0; `expand_bfloat16_pair` is the same in plain arithmetic, which keeps them.
    """
    if dtype == "bfloat16":
        return Call(DType("int32").with_lanes(low.dtype.lanes), "bfloat16_pair", (low, high))
    return _joined(low, high, dtype)


def expand_bfloat16_pair(call: Call) -> Expr:
    """The value of a `bfloat16_pair` by conversions."""
    low, high = call.args
    return _joined(low, high, "bfloat16")


def _joined(low: Expr, high: Expr, dtype: str) -> Expr:
    bits = (op.reinterpret("uint16", op.cast(dtype, half)) for half in (low, high))
    first, second = (op.cast("int32", half) for half in bits)
    raised = op.call_intrin(second.dtype, "shift_left", second, op.const(16, second.dtype))
    return op.call_intrin(first.dtype, "bitwise_or", first, raised)


def half_of(word: Expr, number: Expr | int, dtype: str) -> Expr:
    """The first or the second number, of a type of 16 bits, of a word that `pair_word` makes."""
    bits = op.call_intrin("int32", "shift_right", word, op.const(16) * number)
    return op.reinterpret(dtype, bits.astype("uint16"))


def expand_dot4(call: Call) -> Expr:
    """The value of a `dot4` by shifts and multiplications of 32-bit lanes."""
    acc, a, b = call.args
    total = acc
    for position in range(GROUP):
        total = total + _byte(a, acc, position) * _byte(b, acc, position)
    return total


def _byte(bytes_: Expr, like: Expr, position: int) -> Expr:
    """Byte `position` of each group of four, as int32."""
    word = op.call_intrin(like.dtype, "reinterpret", bytes_)
    bits = 8 * GROUP
    if bytes_.dtype.code == "int":
        raised = op.call_intrin(like.dtype, "shift_left", word, op.const(bits - 8 * (position + 1), like.dtype))
        return op.call_intrin(like.dtype, "shift_right", raised, op.const(bits - 8, like.dtype))
    low = op.call_intrin(like.dtype, "shift_right", word, op.const(8 * position, like.dtype))
    return op.call_intrin(like.dtype, "bitwise_and", low, op.const(255, like.dtype))


def dp4a(acc: Expr, a: Expr, b: Expr) -> Call:
    """The sum acc + sum over g < 4 of a's byte g * b's byte g."""
    return Call("int32", "dp4a", (acc, a, b))


def word_of(bytes_: Sequence[Expr]) -> Expr:
    """Four bytes as a word, the first one lowest."""
    signed = bytes_[0].dtype.code == "int"
    word = op.const(0, "uint32")
    for position, byte in enumerate(bytes_):
        bits = (op.reinterpret("uint8", byte) if signed else byte).astype("uint32")
        raised = op.call_intrin("uint32", "shift_left", bits, op.const(8 * position, "uint32")) if position else bits
        word = op.call_intrin("uint32", "bitwise_or", word, raised) if position else raised
    return op.reinterpret("int32", word) if signed else word


def word_of_number(number: int, dtype: str) -> Expr:
    """A word of four times the same byte, of a type."""
    word = int.from_bytes(bytes([number & 255] * GROUP), "little", signed=dtype == "int8")
    return op.const(word, "int32" if dtype == "int8" else "uint32")
