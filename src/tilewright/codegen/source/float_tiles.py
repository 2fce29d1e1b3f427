"""C functions that compute the sums of a register tile of float products (`backend/board/schedule/float_products.py`).

    tilewright_floats_4x4x2(sums, x, w, rows, count, row, pixel)       4 pixels by 4 channels, 2 terms a step
    tilewright_floats_depthwise_4_3x3x1(sums, x, w, row, channels, count)       4 pixels of each channel, 3x3 taps

The windows of neighbouring pixels lie `pixel` elements apart, each `rows` rows of `count` terms that lie `row` elements
apart; weights are those of all channels for one term after the other. With ARM's MVE (Helium) four channels are a
vector. As of `byte_tiles.py`, sums are variables, and compilers leave statements in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewright.codegen.source.byte_layers import VECTOR_HEAD
from tilewright.codegen.source.byte_tiles import TILE_HEAD

_NAME = re.compile(r"tilewright_floats_(\d+)x(\d+)x(\d+)(?=\()")
_DEPTHWISE = re.compile(r"tilewright_floats_depthwise_(\d+)_(\d+)x(\d+)x(\d+)(?=\()")
_LANES = 4


def float_tile_name(pixels: int, block: int, steps: int) -> str:
    """The name of the function of a tile."""
    return f"tilewright_floats_{pixels}x{block}x{steps}"


def float_depthwise_name(pixels: int, kernel: tuple[int, int], stride: int) -> str:
    """The name of the function of a tile of a depthwise convolution."""
    return f"tilewright_floats_depthwise_{pixels}_{kernel[0]}x{kernel[1]}x{stride}"


def float_tile_functions(text: str) -> str:
    """The functions of the tiles that `text` calls, each defined once in a file however many texts stand in it."""
    parts = []
    for pattern, lines in ((_NAME, _lines), (_DEPTHWISE, _depthwise)):
        for match in {found[0]: found for found in pattern.finditer(text)}.values():
            made = lines(match[0], *map(int, match.groups()))
            parts += [f"#ifndef {match[0]}_H", f"#define {match[0]}_H", *made, "#endif\n"]
    return "\n".join([VECTOR_HEAD, TILE_HEAD, *parts]) if parts else ""


def _lines(name: str, pixels: int, block: int, steps: int) -> Iterator[str]:
    yield f"TILEWRIGHT_TILE void {name}(float* restrict sums, const float* restrict x, const float* restrict w,"
    yield "    int32_t rows, int32_t count, int32_t row, int32_t pixel) {"
    if pixels == 1:
        yield "  (void)pixel;"
    vectors = block % _LANES == 0
    if vectors:
        yield "#ifdef TILEWRIGHT_MVE"
        yield from _body(pixels, block // _LANES, steps, _VECTORS)
        yield "#else"
    yield from _body(pixels, block, steps, _SINGLE)
    if vectors:
        yield "#endif"
    yield "}"


#: Of a number or a vector: its type, zero, elements, a load, a multiply-add and a store.
_SINGLE = ("float", "0", 1, "w[{at}]", "tilewright_fmaf({x}, {w}, {sum})", "sums[{at}] = {sum};")
_VECTORS = (
    "float32x4_t", "vdupq_n_f32(0)", _LANES, "vldrwq_f32(w + {at})", "vfmaq_n_f32({sum}, {w}, {x})",
    "vstrwq_f32(sums + {at}, {sum});",
)  # fmt: skip


def _body(pixels: int, block: int, steps: int, form: tuple[str, str, int, str, str, str]) -> Iterator[str]:
    kind, zero, lanes, load, multiply, store = form
    sums = [(p, lane) for p in range(pixels) for lane in range(block)]
    yield f"  {kind} {', '.join(f's{p}_{lane} = {zero}' for p, lane in sums)};"
    yield "  for (; rows > 0; rows -= 1, x += row) {"
    first = ", ".join(["*x0 = x", *(f"*x{p} = x{p - 1} + pixel" for p in range(1, pixels))])
    yield f"    const float {first};"
    yield "    int32_t left;"
    yield f"    for (left = count; left > 0; left -= {steps}) {{"
    for step in range(steps):
        yield "      {"
        for lane in range(block):
            value = load.format(at=lanes * (step * block + lane))
            yield f"        const {kind} w{lane} = {value};"
        for p in range(pixels):
            yield f"        const float a{p} = x{p}[{step}];"
            for lane in range(block):
                yield f"        s{p}_{lane} = {multiply.format(x=f'a{p}', w=f'w{lane}', sum=f's{p}_{lane}')};"
        yield "      }"
    yield f"      {', '.join([f'w += {lanes * block * steps}', *(f'x{p} += {steps}' for p in range(pixels))])};"
    yield "    }"
    yield "  }"
    for p, lane in sums:
        yield f"  {store.format(at=lanes * (p * block + lane), sum=f's{p}_{lane}')}"


def _depthwise(name: str, pixels: int, height: int, width: int, stride: int) -> Iterator[str]:
    yield f"TILEWRIGHT_TILE void {name}(float* restrict sums, const float* restrict x, const float* restrict w,"
    yield "    int32_t row, int32_t channels, int32_t count) {"
    yield "  int32_t more = count;"
    yield "#ifdef TILEWRIGHT_MVE"
    yield from _channels(pixels, (height, width), stride, "float32x4_t", ("vdupq_n_f32(0)", "vldrwq_f32({})"),
                         ("vfmaq_f32({sum}, {w}, {x})", "vstrwq_f32({at}, {sum})"), _LANES)  # fmt: skip
    yield "#endif"
    yield from _channels(pixels, (height, width), stride, "float", ("0", "*{}"),
                         ("tilewright_fmaf({x}, {w}, {sum})", "*({at}) = {sum}"), 1)  # fmt: skip
    yield "}"


def _channels(
    pixels: int,
    kernel: tuple[int, int],
    stride: int,
    kind: str,
    moves: tuple[str, str],
    sums: tuple[str, str],
    lanes: int,
) -> Iterator[str]:
    (zero, load), (multiply, store) = moves, sums
    columns = (pixels - 1) * stride + kernel[1]
    yield f"  for (; more >= {lanes}; more -= {lanes}, x += {lanes}, w += {lanes}, sums += {lanes}) {{"
    yield f"    {kind} {', '.join(f's{p} = {zero}' for p in range(pixels))};"
    yield "    const float *line = x, *u = w;"
    yield "    int32_t left;"
    yield f"    for (left = {kernel[0]}; left > 0; left -= 1, line += row) {{"
    yield "      const float* v = line;"
    for tap in range(kernel[1]):
        yield f"      const {kind} w{tap} = {load.format('u')};"
        yield "      u += channels;"
    for column in range(columns):
        yield "      {"
        yield f"        const {kind} a = {load.format('v')};"
        for p in range(pixels):
            tap = column - p * stride
            if 0 <= tap < kernel[1]:
                yield f"        s{p} = {multiply.format(x='a', w=f'w{tap}', sum=f's{p}')};"
        yield "      }"
        if column + 1 < columns:
            yield "      v += channels;"
    yield "    }"
    for p in range(pixels):
        yield f"    {store.format(at=f'sums + {p} * count', sum=f's{p}')};"
    yield "  }"
