"""float16 and bfloat16 for languages without them: stored as 16-bit patterns, computed as float32.

The functions work on bits alone, so the result is the same everywhere: rounded to nearest even, infinities, subnormal
numbers and the quietness of NaN kept (IEEE 754-2019, sections 3.4 and 4.3.1).
"""

from __future__ import annotations

CONVERSIONS = {
    ("float16", "float32"): "tilewright_from_half",
    ("float32", "float16"): "tilewright_to_half",
    ("bfloat16", "float32"): "tilewright_from_bfloat",
    ("float32", "bfloat16"): "tilewright_to_bfloat",
}

_TEXT = """\
{q}float tilewright_from_half({u16} h) {{
  {u32} sign = ({u32})(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  if (magnitude >= 0x7c00u) return {as_float}(sign | 0x7f800000u | (magnitude << 13));
  if (magnitude >= 0x0400u) return {as_float}(sign | ((magnitude << 13) + 0x38000000u));
  float small = (float)magnitude * 5.9604644775390625e-8f;
  return {as_float}({as_uint}(small) | sign);
}}
{q}{u16} tilewright_to_half(float f) {{
  {u32} bits = {as_uint}(f), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return ({u16})(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  if (magnitude >= 0x477ff000u) return ({u16})(sign | 0x7c00u);
  if (magnitude >= 0x38800000u) {{
    {u32} rounded = magnitude + 0x0fffu + ((magnitude >> 13) & 1u);
    return ({u16})(sign | ((rounded - 0x38000000u) >> 13));
  }}
  {u32} shift = 126u - (magnitude >> 23);
  if (shift > 24u) return ({u16})sign;
  {u32} mantissa = (magnitude & 0x7fffffu) | 0x800000u, half_way = 1u << (shift - 1u);
  {u32} result = mantissa >> shift, rest = mantissa & ((1u << shift) - 1u);
  if (rest > half_way || (rest == half_way && (result & 1u))) result += 1u;
  return ({u16})(sign | result);
}}
{q}float tilewright_from_bfloat({u16} h) {{
  return {as_float}(({u32})h << 16);
}}
{q}{u16} tilewright_to_bfloat(float f) {{
  {u32} bits = {as_uint}(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return ({u16})((bits >> 16) | 0x40u);
  return ({u16})((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}}"""


def half_functions(qualifier: str, u16: str, u32: str, as_float: str, as_uint: str) -> str:
    """The conversion functions; `as_float` and `as_uint` name functions that reinterpret the bits."""
    return _TEXT.format(q=qualifier, u16=u16, u32=u32, as_float=as_float, as_uint=as_uint)
