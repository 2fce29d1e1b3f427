"""C functions on words of two 16-bit numbers and on high halves of products, by instructions of ARM's DSP extension.

Where the compiler has no such processor (`__ARM_FEATURE_DSP`), plain C computes the same.
"""

from __future__ import annotations

_FUNCTIONS = {
    "tilewright_odd": """\
/* Bytes 1 and 3 of a word as a pair. */
TILEWRIGHT_MAYBE int32_t tilewright_odd(int32_t word) {
#ifdef TILEWRIGHT_DSP
  int32_t pair;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
  return pair;
#else
  const uint32_t w = (uint32_t)word;
  return (int32_t)(((uint32_t)((int32_t)w >> 24) << 16) | ((uint32_t)((int32_t)(w << 16) >> 24) & 0xffffu));
#endif
}
""",
    "tilewright_even": """\
/* Bytes 0 and 2 of a word as a pair. */
TILEWRIGHT_MAYBE int32_t tilewright_even(int32_t word) {
#ifdef TILEWRIGHT_DSP
  int32_t pair;
  __asm__("sxtb16 %0, %1" : "=r"(pair) : "r"(word));
  return pair;
#else
  const uint32_t w = (uint32_t)word;
  return (int32_t)(((uint32_t)((int32_t)(w << 8) >> 24) << 16) | ((uint32_t)((int32_t)(w << 24) >> 24) & 0xffffu));
#endif
}
""",
    "tilewright_mixed": """\
/* 256 times bytes 0 and 2 of a word, plus 127, less the pair of bytes 1 and 3. */
TILEWRIGHT_MAYBE int32_t tilewright_mixed(int32_t word, int32_t odd) {
  const uint32_t high = (((uint32_t)word << 8) & 0xff00ff00u) | 0x007f007fu;
#ifdef TILEWRIGHT_DSP
  int32_t pair;
  __asm__("ssub16 %0, %1, %2" : "=r"(pair) : "r"(high), "r"(odd));
  return pair;
#else
  const uint32_t less = (uint32_t)odd;
  return (int32_t)((((high >> 16) - (less >> 16)) << 16) | ((high - less) & 0xffffu));
#endif
}
""",
    "tilewright_dot": """\
/* start + the products of two pairs. */
TILEWRIGHT_MAYBE int32_t tilewright_dot(int32_t a, int32_t b, int32_t start) {
#ifdef TILEWRIGHT_DSP
  __asm__("smlad %0, %1, %2, %0" : "+r"(start) : "r"(a), "r"(b));
  return start;
#else
  const int32_t low = (int32_t)((uint32_t)a << 16) >> 16, other = (int32_t)((uint32_t)b << 16) >> 16;
  return (int32_t)((uint32_t)start + (uint32_t)(low * other) + (uint32_t)((a >> 16) * (b >> 16)));
#endif
}
""",
    "tilewright_high": """\
/* a * b / 2^32 to the nearest, halves up. */
TILEWRIGHT_MAYBE int32_t tilewright_high(int32_t a, int32_t b) {
#ifdef TILEWRIGHT_DSP
  int32_t high;
  __asm__("smmulr %0, %1, %2" : "=r"(high) : "r"(a), "r"(b));
  return high;
#else
  const uint64_t product = (uint64_t)((int64_t)a * b);
  return (int32_t)((uint32_t)(product >> 32) + ((uint32_t)product >> 31));
#endif
}
""",
}

_HEAD = """\
#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__)
#define TILEWRIGHT_DSP 1
#endif
"""


def pair_functions(text: str) -> str:
    """The functions that `text` calls, each defined once in a file however many texts stand in it."""
    used = [name for name in _FUNCTIONS if f"{name}(" in text]
    guarded = [f"#ifndef {name}_H\n#define {name}_H\n{_FUNCTIONS[name]}#endif\n" for name in used]
    return "".join([_HEAD, *guarded, "\n"]) if used else ""
