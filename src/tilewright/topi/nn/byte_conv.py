"""Convolutions of bytes for processors without vectors: images [N, H, W, C] stay bytes, sums are int32.

Weights lie in the order in which a kernel reads them: for `block` output channels at a time, one term of each after the
other. Processors that multiply pairs of 16-bit numbers ("dsp" in `target.microcontrollers`) read images as words of two
pairs. Four bytes x0 … x3 of a window become the pairs

    odd = (x1, x3)          mixed = 256 (x0, x2) - odd + 127

and four weights the pairs 256 (w1, w3) + (w0, w2), of which a byte is w0 or w2, and the next one w1 or w3, less 1 where
the one before it is negative. Then

    pairs · odd + (w0, w2) · mixed = 256 (w0 x0 + w1 x1 + w2 x2 + w3 x3) + 127 (w0 + w2)

so that one instruction widens the weights, where two would without. Sums are right as long as they fit 24 bits, which
whoever packs weights has to know; "wide" pairs are those of plain bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.tir import call_extern
from tilewright.topi import tag
from tilewright.topi.nn.conv2d import output_size, workload
from tilewright.topi.nn.pad import pad
from tilewright.topi.reference.byte_conv import BYTES, PAIRS, SCALE, WORD
from tilewright.topi.util import extents

#: Byte `r` of the part `ry` of the window at position i: (*i, ry, r).
_Byte = Callable[..., Any]


def conv2d_bytes(
    data: Tensor,
    weight: Tensor,
    bias: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    pad_value: int,
    form: str,
) -> Tensor:
    """`data` [N, H, W, C] with weights [O/b, K, b] and a bias [O] to int32 [N, OH, OW, O].

    K are KH rows of KW * C bytes, or of as many words as hold these. `pad_value` stands around the image. Stages:
    data_pad (if there is padding, or words go beyond rows), byte_windows [N, OH, OW, K] or, of pairs, [N, OH, OW, K,
    2], byte_conv [N, OH, OW, O/b, b], byte_bias. Where a window is a pixel, all are one row of OW until byte_bias.
    """
    n, h, w, c = extents(data)
    _, terms, block = extents(weight)
    row = terms // kernel[0]
    oh, ow = output_size((h, w), kernel, strides, padding, (1, 1))
    top, left, bottom, right = padding
    beyond = -(-(_bytes_of(row, form) - kernel[1] * c) // c)
    image = pad(data, (0, top, left, 0), (0, bottom, right + beyond, 0), pad_value)
    flat = (*kernel, *strides) == (1, 1, 1, 1) and image is data

    def byte(b: Any, y: Any, x: Any, ry: Any, r: Any) -> Any:
        if flat:
            return image(b, x // w, x % w, r)
        return image(b, y * strides[0] + ry, x * strides[1] + r // c, r % c)

    sums = _sums(byte, (n, 1, h * w) if flat else (n, oh, ow), weight, {"form": form, "flat": flat, "row": row})

    def finished(b: Any, y: Any, x: Any, o: Any) -> Any:
        position = (b, 0, y * ow + x) if flat else (b, y, x)
        return _finished(sums(*position, o // block, o % block) + bias(o), form)

    return te.compute((n, oh, ow, len_of(weight)), finished, name="byte_bias", tag=tag.INJECTIVE)


def dense_bytes(data: Tensor, weight: Tensor, bias: Tensor, form: str) -> Tensor:
    """`data` [M, K] with weights [O/b, K, b] and a bias [O] to int32 [M, O]; the stages of `conv2d_bytes`."""
    rows, depth = extents(data)
    _, terms, block = extents(weight)
    image = pad(data, (0, 0), (0, _bytes_of(terms, form) - depth))
    facts = {"form": form, "flat": True, "row": terms}
    sums = _sums(lambda b, y, x, ry, r: image(x, r), (1, 1, rows), weight, facts)
    return te.compute(
        (rows, len_of(weight)),
        lambda i, o: _finished(sums(0, 0, i, o // block, o % block) + bias(o), form),
        name="byte_bias",
        tag=tag.INJECTIVE,
    )


def len_of(weight: Tensor) -> int:
    """The output channels of packed weights."""
    blocks, _, block = extents(weight)
    return int(blocks * block)


def _bytes_of(row: int, form: str) -> int:
    return row if form == BYTES else row * WORD


def _finished(total: Any, form: str) -> Any:
    return tir.call_intrin("int32", "shift_right", total, tir.const(SCALE)) if form == PAIRS else total


def _sums(byte: _Byte, positions: tuple[int, int, int], weight: Tensor, facts: dict[str, Any]) -> Tensor:
    """The sums of products at [N, OH, OW] positions in blocks of channels, times 2^`SCALE` of `PAIRS`."""
    blocks, terms, block = extents(weight)
    form, row = facts["form"], facts["row"]
    k = te.reduce_axis((0, terms), name="k")
    axes = [k] if form == BYTES else [k, te.reduce_axis((0, 2), name="side")]
    shape = (*positions, terms) if form == BYTES else (*positions, terms, 2)

    def element(*i: Any) -> Any:
        b, y, x, term, *side = i
        at = b, y, x, term // row, term % row
        return _pairs(byte, form, *at, *side) if side else byte(*at)

    windows = te.compute(shape, element, name="byte_windows", tag=tag.BYTE_WINDOWS)

    def sums(b: Any, y: Any, x: Any, o: Any, lane: Any) -> Any:
        return te.sum(product(windows(b, y, x, *axes), weight(o, k, lane), axes, form), axis=axes)

    return te.compute((*positions, blocks, block), sums, name="byte_conv", tag=tag.BYTE_CONV2D, attrs=facts)


def product(value: Any, weight: Any, axes: Sequence[Any], form: str) -> Any:
    """The term that one element of a window, of pairs of one side (the last of `axes`), and a weight add to a sum."""
    if form == BYTES:
        return value.astype("int32") * weight.astype("int32")
    return dot(value, weights_of_side(weight, axes[-1], form))


def _pairs(byte: Callable[..., Any], form: str, b: Any, y: Any, x: Any, ry: Any, k: Any, side: Any) -> Any:
    """The pairs that a word of four bytes becomes: those that meet the first and the second part of the weights."""
    word: Any = None
    for i in range(WORD):
        part = byte(b, y, x, ry, k * WORD + i).astype("uint8").astype("uint32")
        moved = tir.call_intrin("uint32", "shift_left", part, tir.const(8 * i, "uint32")) if i else part
        word = tir.call_intrin("uint32", "bitwise_or", word, moved) if i else moved
    word = word.astype("int32")
    odd = call_extern("int32", "tilewright_odd", word)
    other = call_extern("int32", "tilewright_mixed", word, odd) if form == PAIRS else even(word)
    return tir.select(side == 0, odd, other)


def even(word: Any) -> Any:
    """Bytes 0 and 2 of a word as a pair."""
    return call_extern("int32", "tilewright_even", word)


def weights_of_side(word: Any, side: Any, form: str) -> Any:
    """The pairs of weights that meet each side of the words of an image."""
    first = word if form == PAIRS else call_extern("int32", "tilewright_odd", word)
    return tir.select(side == 0, first, even(word))


def dot(a: Any, b: Any, start: Any = 0) -> Any:
    """start + the products of two pairs."""
    return call_extern("int32", "tilewright_dot", a, b, start)


def depthwise_conv2d_bytes(
    data: Tensor,
    weight: Tensor,
    bias: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    pad_value: int,
) -> Tensor:
    """`data` [N, H, W, C] with weights [KH, KW, C], a filter for each channel, and a bias [C] to int32 [N, OH, OW, C].

    Stages: data_pad (if there is padding), byte_depthwise, byte_bias.
    """
    n, h, w, c = extents(data)
    kh, kw, _ = extents(weight)
    oh, ow = output_size((h, w), (kh, kw), strides, padding, (1, 1))
    top, left, bottom, right = padding
    image = pad(data, (0, top, left, 0), (0, bottom, right, 0), pad_value)
    ry, rx = te.reduce_axis((0, kh), name="kh"), te.reduce_axis((0, kw), name="kw")
    made = te.compute(
        (n, oh, ow, c),
        lambda b, y, x, f: te.sum(
            image(b, y * strides[0] + ry, x * strides[1] + rx, f).astype("int32") * weight(ry, rx, f).astype("int32"),
            axis=[ry, rx],
        ),
        name="byte_depthwise",
        tag=tag.BYTE_DEPTHWISE,
        attrs=workload(strides, padding, (1, 1), c),
    )
    return te.compute(
        (n, oh, ow, c), lambda b, y, x, f: made(b, y, x, f) + bias(f), name="byte_bias", tag=tag.INJECTIVE
    )
