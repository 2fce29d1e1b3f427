"""Attention whose products have operands of 16 bits, in stages as `attention`: sums and softmax are in float32.

Operands are words of two numbers, which the processor's products take side by side: word w holds the terms w and
w + W of a depth of 2 W. So words are made of whole vectors, of queries and keys along their depth, of exponentials and
values along the keys. All sizes are filled up, depths to whole matrix registers (AMX), rows to whole blocks; what rows
behind the last hold is not read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.tir.dot_product import half_of, pair_word
from tilewright.topi import tag
from tilewright.topi.util import extents

#: Queries are filled up to a multiple of `ROW_ALIGNMENT`, terms of a sum to one of `DEPTH_ALIGNMENT`.
ROW_ALIGNMENT, DEPTH_ALIGNMENT = 16, 32

#: Numbers of 16 bits in a word.
_PAIR = 2

_SUMS = "float32"

#: Scores are in units of it: powers of 2 stand for those of e.
_LOG2_E = math.log2(math.e)


def narrow_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float = 1.0,
    causal: bool = False,
    out_layout: str = "BHSD",
    operands: str = "bfloat16",
) -> Tensor:
    """softmax(query key^T scale + mask) value of known sizes, as `attention`, with operands of type `operands`.

    There are `ROW_ALIGNMENT` queries or more, and values of a multiple of it.

    Queries are multiplied by `scale` and log2(e) before they are rounded, so that exponentials are powers of 2. The
    weights of a row, which are rounded, are divided by the sum of what they are rounded to.

    Stages: packed_query, packed_key, packed_value, scores, masked_scores, softmax_maxelem, softmax_exp, softmax_expsum,
    attention (e times value), attention_output (divided by the sum).
    """
    batch, heads, rows, depth = extents(query)
    _, shared, columns, width = extents(value)
    group, high = heads // shared, _whole(rows, ROW_ALIGNMENT)

    def row(b: Any, h: Any, r: Any, d: Any) -> Any:
        return query(b, h, _before(r, rows, high), d).astype(_SUMS) * tir.const(scale * _LOG2_E, _SUMS)

    def of_key(b: Any, h: Any, c: Any, d: Any) -> Any:
        found = key(b, h, c, d).astype(_SUMS)
        return found if keys == columns else tir.if_then_else(c < columns, found, tir.const(0.0, _SUMS))

    def of_value(b: Any, h: Any, c: Any, j: Any) -> Any:
        return value(b, h, j, c).astype(_SUMS)

    terms, keys = _whole(depth, DEPTH_ALIGNMENT), _whole(columns, DEPTH_ALIGNMENT)
    q = _words((batch, heads, high), (terms, depth), 3, row, operands, "packed_query")
    k = _words((batch, shared, keys), (terms, depth), 2, of_key, operands, "packed_key")
    v = _words((batch, shared, width), (keys, columns), 2, of_value, operands, "packed_value")
    scores = _product(q, k, (operands, group), "scores", tag.ATTENTION_SCORES)
    exponentials, total = _softmax(_masked(scores, mask, (rows, columns), causal), operands)
    facts = {"out_layout": out_layout, "operands": operands, "rows": rows}
    product = _product(exponentials, v, (operands, group), "attention", tag.NARROW_ATTENTION, facts)
    sizes = dict(zip("BHSD", (batch, heads, rows, width), strict=True))
    one = tir.const(1.0, _SUMS)

    def element(*i: Any) -> Any:
        b, h, r, c = (i[out_layout.index(letter)] for letter in "BHSD")
        return (product(b, h, r, c) * (one / total(b, h, r))).astype(query.dtype)

    shape = [sizes[letter] for letter in out_layout]
    return te.compute(shape, element, name="attention_output", tag=tag.INJECTIVE)


def _whole(size: int, step: int) -> int:
    return -(-size // step) * step


def _before(index: Any, size: int, padded: int) -> Any:
    """`index`, or the last of `size` where it is behind that."""
    return index if size == padded else tir.minimum(index, size - 1)


def _words(
    shape: tuple[int, ...], size: tuple[int, int], axis: int, element: Callable[..., Any], operands: str, name: str
) -> Tensor:
    """Words of terms `element(b, h, i, term)` along an axis: so many, of which the second number are no padding."""
    terms, known = size
    words = terms // _PAIR

    def term(index: list[Any], at: Any) -> Any:
        number = element(*index, _before(at, known, terms))
        return number if terms == known else tir.select(at < known, number, tir.const(0.0, _SUMS))

    def word(*i: Any) -> Any:
        index, at = [*i[:axis], *i[axis + 1 :]], i[axis]
        return pair_word(term(index, at), term(index, at + words), operands)

    return te.compute((*shape[:axis], words, *shape[axis:]), word, name=name, tag=tag.INJECTIVE)


def _product(
    a: Tensor, b: Tensor, kind: tuple[str, int], name: str, tag_: str, attrs: dict[str, Any] | None = None
) -> Tensor:
    """The products of words [B, H, M, W] by [B, G, W, N] of a type, of which a group of heads shares the latter."""
    (operands, group), (batch, heads, rows, words), columns = kind, extents(a), extents(b)[3]
    w, i = te.reduce_axis((0, words), name="w"), te.reduce_axis((0, _PAIR), name="half")

    def element(n: Any, h: Any, r: Any, c: Any) -> Any:
        left, right = (half_of(x, i.var, operands).astype(_SUMS) for x in (a(n, h, r, w), b(n, h // group, w, c)))
        return te.sum(left * right, axis=[w, i])

    return te.compute((batch, heads, rows, columns), element, name=name, tag=tag_, attrs=attrs or {})


def _masked(scores: Tensor, mask: Tensor | None, sizes: tuple[int, int], causal: bool) -> Tensor:
    """The scores with the mask, minus infinity for what a row may not see and for the padding."""
    (rows, columns), (high, padded) = sizes, extents(scores)[2:]
    hidden = tir.const(-math.inf, _SUMS)

    def element(b: Any, h: Any, r: Any, c: Any) -> Any:
        score: Any = scores(b, h, r, c)
        if mask is not None:
            at = zip((b, h, _before(r, rows, high), c), extents(mask), strict=True)
            bias = mask(*[0 if size == 1 else i for i, size in at]).astype(_SUMS) * tir.const(_LOG2_E, _SUMS)
            score = score + (bias if padded == columns else tir.if_then_else(c < columns, bias, hidden))
        elif padded != columns:
            score = tir.select(c < columns, score, hidden)
        return tir.select(c <= r, score, hidden) if causal else score

    return te.compute(scores.shape, element, name="masked_scores", tag=tag.INJECTIVE)


def _softmax(masked: Tensor, operands: str) -> tuple[Tensor, Tensor]:
    """exp(x - max) along the rows as words, and the sums of what they hold."""
    batch, heads, rows, padded = extents(masked)
    words = padded // _PAIR
    c = te.reduce_axis((0, padded), name="c")
    top = te.compute((batch, heads, rows), lambda b, h, r: te.max(masked(b, h, r, c), axis=c), name="softmax_maxelem")

    def word(b: Any, h: Any, r: Any, i: Any) -> Any:
        less = (masked(b, h, r, at) - top(b, h, r) for at in (i, i + words))
        low, high = (tir.call_intrin(_SUMS, "exp2_approx", x) for x in less)
        return pair_word(low, high, operands)

    exponentials = te.compute((batch, heads, rows, words), word, name="softmax_exp")
    w = te.reduce_axis((0, words), name="w")

    def both(word: Any) -> Any:
        first, second = (half_of(word, i, operands).astype(_SUMS) for i in range(_PAIR))
        return first + second

    total = te.compute(
        (batch, heads, rows), lambda b, h, r: te.sum(both(exponentials(b, h, r, w)), axis=w), name="softmax_expsum"
    )
    return exponentials, total
