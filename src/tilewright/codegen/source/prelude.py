"""The text before the functions of a model in C: types, macros, and of the helper functions those that it calls.

Without a math library ("freestanding") the functions on floats that hardware has, or that take a few instructions, come
with the model: they are exact, as those of the library are. All others of float32 are polynomials already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tilewright.codegen.source.c import C99, prelude_functions, prelude_head, vector_types
from tilewright.errors import UnsupportedError

_NUMBERS = """\
#if defined(__GNUC__)
#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#else
#define INFINITY (1e30f * 1e30f)
#define NAN (INFINITY - INFINITY)
#endif"""

#: The bits of `__ARM_FP` for the types (4 float, 8 double) that the processor rounds by an instruction.
_ROUNDS = """\
#if defined(__GNUC__) && (defined(__SSE4_1__) || defined(__aarch64__) || defined(__wasm__))
#define TILEWRIGHT_ROUNDS 12
#elif defined(__GNUC__) && defined(__ARM_FP) && defined(__ARM_ARCH) && __ARM_ARCH >= 8
#define TILEWRIGHT_ROUNDS __ARM_FP
#else
#define TILEWRIGHT_ROUNDS 0
#endif"""

#: Without branches. Of a type with {digits} bits behind the point: numbers of that size and more have none behind
#: theirs.
_ROUNDING = """\
TILEWRIGHT_MAYBE {t} tilewright_fabs{f}({t} x) {{
#ifdef __GNUC__
  return __builtin_fabs{f}(x);
#else
  return tilewright_bits_{u}_{d}(tilewright_bits_{d}_{u}(x) & ~({u}_t)0 >> 1);
#endif
}}
TILEWRIGHT_MAYBE {t} tilewright_copysign{f}({t} x, {t} sign) {{
  const {u}_t mask = ~({u}_t)0 >> 1;
  return tilewright_bits_{u}_{d}((tilewright_bits_{d}_{u}(x) & mask) | (tilewright_bits_{d}_{u}(sign) & ~mask));
}}
TILEWRIGHT_MAYBE {t} tilewright_trunc{f}({t} x) {{
#if TILEWRIGHT_ROUNDS & {held}
  return __builtin_trunc{f}(x);
#else
  const {u}_t bits = tilewright_bits_{d}_{u}(x), small = 0 - ({u}_t)(tilewright_fabs{f}(x) < {whole});
  const {t} made = tilewright_copysign{f}(({t})({i}_t)tilewright_bits_{u}_{d}(bits & small), x);
  return tilewright_bits_{u}_{d}((tilewright_bits_{d}_{u}(made) & small) | (bits & ~small));
#endif
}}
TILEWRIGHT_MAYBE {t} tilewright_floor{f}({t} x) {{
#if TILEWRIGHT_ROUNDS & {held}
  return __builtin_floor{f}(x);
#else
  const {t} whole = tilewright_trunc{f}(x);
  const {u}_t above = 0 - ({u}_t)(whole > x); /* of whole - (whole > x) GCC makes a branch */
  return whole - tilewright_bits_{u}_{d}(tilewright_bits_{d}_{u}(({t})1) & above);
#endif
}}
TILEWRIGHT_MAYBE {t} tilewright_ceil{f}({t} x) {{
#if TILEWRIGHT_ROUNDS & {held}
  return __builtin_ceil{f}(x);
#else
  const {t} whole = tilewright_trunc{f}(x);
  const {u}_t below = 0 - ({u}_t)(whole < x);
  return tilewright_copysign{f}(whole + tilewright_bits_{u}_{d}(tilewright_bits_{d}_{u}(({t})1) & below), x);
#endif
}}
TILEWRIGHT_MAYBE {t} tilewright_rint{f}({t} x) {{
#if TILEWRIGHT_ROUNDS & {held}
  return __builtin_rint{f}(x);
#else
  const {t} size = tilewright_fabs{f}(x), made = tilewright_copysign{f}(size + {whole} - {whole}, x);
  const {u}_t small = 0 - ({u}_t)(size < {whole});
  return tilewright_bits_{u}_{d}((tilewright_bits_{d}_{u}(made) & small) | (tilewright_bits_{d}_{u}(x) & ~small));
#endif
}}
TILEWRIGHT_MAYBE {t} tilewright_fmod{f}({t} x, {t} y) {{
  const {t} size = tilewright_fabs{f}(x), step = tilewright_fabs{f}(y);
  {t} rest = size;
  if (!(size < INFINITY) || !(step > 0)) return (x - x) / (x - x);
  while (rest >= step) {{
    {t} part = step;
    while (part <= rest - part) part += part;
    rest -= part;
  }}
  return tilewright_copysign{f}(rest, x);
}}
"""

#: The square root bit by bit; an instruction where the compiler has one and need not set errno.
_ROOT = """\
TILEWRIGHT_MAYBE float tilewright_sqrtf(float x) {
#if defined(__NO_MATH_ERRNO__) && (defined(__SSE2__) || defined(__aarch64__) || defined(__riscv_flen) \\
    || (defined(__ARM_FP) && (__ARM_FP & 4)))
  return __builtin_sqrtf(x);
#else
  uint32_t bits = tilewright_bits_float32_uint32(x), root = 0, rest = 0, low;
  int32_t power = (int32_t)(bits >> 23) - 127, i;
  if (!(x > 0) || !(x < INFINITY)) return x < 0 ? (x - x) / (x - x) : x;
  bits &= 0x7fffffu;
  if (power == -127) {
    power = -126;
    while (!(bits & 0x800000u)) {
      bits <<= 1;
      power--;
    }
  }
  bits = (bits | 0x800000u) << (power & 1);
  for (i = 0; i < 25; i++) {
    rest = rest << 2 | (bits >> 23 & 3u);
    bits = bits << 2 & 0x1ffffffu;
    low = root << 2 | 1u;
    root <<= 1;
    if (rest >= low) {
      rest -= low;
      root |= 1u;
    }
  }
  root = (root >> 1) + (root & 1u);
  return tilewright_bits_uint32_float32(root + ((uint32_t)((power - (power & 1)) / 2 + 126) << 23));
#endif
}
"""


def _own_functions() -> list[str]:
    """The functions of <math.h> that a model brings along, each named as there behind `tilewright_`."""
    types = (("float", "f", "float32", 32, "8388608.0f"), ("double", "", "float64", 64, "4503599627370496.0"))
    texts = [
        _ROUNDING.format(t=t, f=f, d=d, u=f"uint{bits}", i=f"int{bits}", whole=whole, held=bits // 8)
        for t, f, d, bits, whole in types
    ]
    start = "TILEWRIGHT_MAYBE "
    return [f"{start}{part.rstrip()}" for text in (*texts, _ROOT) for part in text.split(start) if part]


def source_prelude(texts: Iterable[str], freestanding: bool = False) -> str:
    """The text before `texts`, functions of C for one thread that are all of a model.

    <math.h> is part of it where they call that; with `freestanding` never, and they may call what a model brings along.
    Raises `UnsupportedError` for another function of the library then.
    """
    body = "\n".join(texts)
    helpers = _called(prelude_functions(), body)
    library = _library_names("\n".join([body, *helpers]))
    if "tilewright_fma" in _words(body):
        library.add("fma")
    head = [prelude_head(), *vector_types(body)]
    if library and not freestanding:
        return "\n".join(["#include <math.h>", *head, *helpers])
    own = {_name(text).removeprefix("tilewright_"): text for text in _own_functions()}
    missing = sorted(library - own.keys())
    if missing:
        raise UnsupportedError(
            f"the model calls {', '.join(missing)} of the C library, which --freestanding leaves out; float32 needs "
            "none of them: compile the model in float32, or without --freestanding"
        )
    calls = [f"#define {name} tilewright_{name}" for name in sorted(library)]
    aliases = " ".join(f"tilewright_{name}" for name in library)
    helpers = _called([*prelude_functions(), *own.values()], f"{body}\n{aliases}")
    words = _words("\n".join([body, *helpers]))
    numbers = [_NUMBERS] if {"INFINITY", "NAN"} & words else []
    numbers += [_ROUNDS] if "TILEWRIGHT_ROUNDS" in words else []
    return "\n".join([*head, *numbers, *helpers, *calls])


def _library_names(text: str) -> set[str]:
    """The functions of <math.h> that a text calls."""
    known = {name for name in C99.functions.values() if not name.startswith("tilewright_")}
    return set(re.findall(r"\b([a-z]\w*)\(", text)) & known


def _called(functions: list[str], body: str) -> list[str]:
    """Those of `functions`, each behind the ones that it calls, that `body` calls, or others of them do."""
    needed = _words(body)
    kept: list[str] = []
    for text in reversed(functions):
        if _name(text) in needed:
            kept.insert(0, text)
            needed |= _words(text)
    return kept


def _name(function: str) -> str:
    return function[: function.index("(")].split()[-1]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))
