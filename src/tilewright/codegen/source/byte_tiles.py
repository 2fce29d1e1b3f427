"""C functions that compute the sums of a register tile of products of bytes (`backend/board/schedule/tile_intrin.py`).

    tilewright_tile_pairs_2x2x16x4(sums, windows, weights)        2 pixels by 2 channels, 16 words, 4 of them a step

Each sum is a variable. The functions stand alone, and compilers leave their statements in order: loads moved ahead of
the products that use them would need more registers than there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAME = re.compile(r"tilewright_tile_(bytes|pairs|wide_pairs)_(\d+)x(\d+)x(\d+)x(\d+)(?=\()")

#: How functions of tiles are declared.
TILE_HEAD = """\
#ifndef TILEWRIGHT_TILE
#if defined(__clang__)
#define TILEWRIGHT_TILE __attribute__((noinline, unused)) static
#elif defined(__GNUC__)
#define TILEWRIGHT_TILE __attribute__((noinline, unused, optimize("no-schedule-insns"))) static
#else
#define TILEWRIGHT_TILE static
#endif
#endif
"""


def tile_name(form: str, pixels: int, block: int, terms: int, steps: int) -> str:
    """The name of the function of a tile."""
    return f"tilewright_tile_{form}_{pixels}x{block}x{terms}x{steps}"


def tile_functions(text: str) -> str:
    """The functions of the tiles that `text` calls, each defined once in a file however many texts stand in it."""
    parts = [TILE_HEAD]
    for match in dict.fromkeys(found.groups() for found in _NAME.finditer(text)):
        name = tile_name(match[0], *(sizes := [int(size) for size in match[1:]]))
        parts.append("\n".join([f"#ifndef {name}_H", f"#define {name}_H", *_lines(name, match[0], *sizes), "#endif\n"]))
    return "\n".join(parts) if len(parts) > 1 else ""


def _lines(name: str, form: str, pixels: int, block: int, terms: int, steps: int) -> Iterator[str]:
    kind, width = ("int8_t", 1) if form == "bytes" else ("int32_t", 2)
    sums = [f"s{p}_{lane} = 0" for p in range(pixels) for lane in range(block)]
    yield f"TILEWRIGHT_TILE void {name}(int32_t* restrict sums, const {kind}* restrict x, const {kind}* restrict w) {{"
    yield f"  const {kind}* const end = w + {terms * block};"
    yield f"  int32_t {', '.join(sums)};"
    yield "  do {"
    for step in range(steps):
        yield "    {"
        for lane in range(block):
            yield from _weight(form, lane, step * block + lane)
        for p in range(pixels):
            yield from _pixel(form, p, block, width * (p * terms + step))
        yield "    }"
    yield f"    x += {width * steps};"
    yield f"    w += {block * steps};"
    yield "  } while (w != end);"
    for p in range(pixels):
        for lane in range(block):
            yield f"  sums[{p * block + lane}] = s{p}_{lane};"
    yield "}"


def _weight(form: str, lane: int, at: int) -> Iterator[str]:
    yield f"    const int32_t w{lane} = w[{at}];"
    if form == "pairs":
        yield f"    const int32_t f{lane} = w{lane}, e{lane} = tilewright_even(w{lane});"
    if form == "wide_pairs":
        yield f"    const int32_t f{lane} = tilewright_odd(w{lane}), e{lane} = tilewright_even(w{lane});"


def _pixel(form: str, p: int, block: int, at: int) -> Iterator[str]:
    if form == "bytes":
        yield f"    const int32_t x{p} = x[{at}];"
        for lane in range(block):
            yield f"    s{p}_{lane} += x{p} * w{lane};"
        return
    yield f"    const int32_t x{p} = x[{at}], y{p} = x[{at + 1}];"
    for value, weight in (("x", "f"), ("y", "e")):
        for lane in range(block):
            yield f"    s{p}_{lane} = tilewright_dot({value}{p}, {weight}{lane}, s{p}_{lane});"
