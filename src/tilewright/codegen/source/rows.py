"""C functions that write rows of padded images (`backend/board/pad_rows.py`), by words where these fit."""

from __future__ import annotations

_FUNCTIONS = """\
#ifndef tilewright_row_H
#define tilewright_row_H
/* `count` times the byte `value`. */
TILEWRIGHT_MAYBE void tilewright_fill(int8_t* to, int32_t count, int32_t value) {
  if (!((uintptr_t)to & 3u)) {
    const uint32_t word = (uint32_t)(uint8_t)value * 0x01010101u;
    for (; count >= 4; count -= 4, to += 4) *(uint32_t*)(void*)to = word;
  }
  for (; count > 0; count--) *to++ = (int8_t)value;
}

/* `left` times the byte `value`, `count` bytes of an image, `right` times the byte. */
TILEWRIGHT_KERNEL void tilewright_row(int8_t* restrict to, const int8_t* restrict from, int32_t left, int32_t count,
                                      int32_t right, int32_t value) {
  tilewright_fill(to, left, value);
  to += left;
  if (!(((uintptr_t)to | (uintptr_t)from) & 3u)) {
    for (; count >= 16; count -= 16, to += 16, from += 16) {
      const uint32_t* const words = (const uint32_t*)(const void*)from;
      const uint32_t a = words[0], b = words[1], c = words[2], d = words[3];
      uint32_t* const made = (uint32_t*)(void*)to;
      made[0] = a, made[1] = b, made[2] = c, made[3] = d;
    }
    for (; count >= 4; count -= 4, to += 4, from += 4) *(uint32_t*)(void*)to = *(const uint32_t*)(const void*)from;
  }
  for (; count > 0; count--) *to++ = *from++;
  tilewright_fill(to, right, value);
}
#endif

"""

_FLOATS = """\
#ifndef tilewright_row_floats_H
#define tilewright_row_floats_H
/* The same of floats. */
TILEWRIGHT_KERNEL void tilewright_fill_floats(float* to, int32_t count, float value) {
  for (; count > 0; count--) *to++ = value;
}

TILEWRIGHT_KERNEL void tilewright_row_floats(float* restrict to, const float* restrict from, int32_t left,
                                             int32_t count, int32_t right, float value) {
  tilewright_fill_floats(to, left, value);
  to += left;
  for (; count >= 4; count -= 4, to += 4, from += 4) {
    const float a = from[0], b = from[1], c = from[2], d = from[3];
    to[0] = a, to[1] = b, to[2] = c, to[3] = d;
  }
  for (; count > 0; count--) *to++ = *from++;
  tilewright_fill_floats(to, right, value);
}
#endif

"""


def row_functions(text: str) -> str:
    """The functions, once in a file however many texts stand in it; nothing where `text` does not call them."""
    bytes_ = _FUNCTIONS if "tilewright_row(" in text else ""
    return bytes_ + (_FLOATS if "tilewright_row_floats(" in text else "")
