"""Constants as text: exact, of the type they have in the loop IR."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.support.dtype import DType

_LOWEST_INT32, _LOWEST_INT64 = -(2**31), -(2**63)


def c_literal(dtype: DType, value: Any, infinity: str = "INFINITY", nan: str = "NAN", wide: str = "LL") -> str:
    """A constant as C and its relatives spell it.

    `infinity` and `nan` are the language's names of those, `wide` what follows an integer of 64 bits.
    """
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_float:
        return _float(dtype, float(value), infinity, nan)
    if dtype.code == "uint":
        return f"{value}{f'u{wide}' if dtype.bits == 64 else 'u' if dtype.bits == 32 else ''}"
    if value in (_LOWEST_INT32, _LOWEST_INT64):  # the magnitude alone would not fit the type
        return f"({value + 1}{wide if dtype.bits == 64 else ''} - 1)"
    text = f"{value}{wide if dtype.bits == 64 else ''}"
    return f"({text})" if value < 0 else text


def _float(dtype: DType, value: float, infinity: str, nan: str) -> str:
    if math.isnan(value):
        return nan
    if math.isinf(value):
        return infinity if value > 0 else f"(-{infinity})"
    # The shortest decimal that reads back as the same number: compilers round literals correctly.
    text = repr(value) if dtype.bits == 64 else f"{np.float32(value)!s}f"
    return f"({text})" if text.startswith("-") else text


_SIGNED_DIVISION = """\
{q}{t} tilewright_truncdiv_{dtype}({t} a, {t} b) {{
  return b == 0 ? 0 : b == -1 ? ({t})(0 - ({u})a) : ({t})(a / b);
}}
{q}{t} tilewright_truncmod_{dtype}({t} a, {t} b) {{
  return b == 0 || b == -1 ? 0 : ({t})(a % b);
}}
{q}{t} tilewright_floordiv_{dtype}({t} a, {t} b) {{
  {t} q = tilewright_truncdiv_{dtype}(a, b), r = tilewright_truncmod_{dtype}(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? q - 1 : q;
}}
{q}{t} tilewright_floormod_{dtype}({t} a, {t} b) {{
  {t} r = tilewright_truncmod_{dtype}(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}}"""
_UNSIGNED_DIVISION = """\
{q}{t} tilewright_truncdiv_{dtype}({t} a, {t} b) {{ return b == 0 ? 0 : a / b; }}
{q}{t} tilewright_truncmod_{dtype}({t} a, {t} b) {{ return b == 0 ? 0 : a % b; }}"""


def division_functions(qualifier: str, integers: Mapping[str, str]) -> str:
    """Functions that divide rounding towards zero and down, for each type of `integers` (element type to its name).

    By 0 they yield 0, and the smallest number by -1 wraps around, as in the loop IR.
    """
    parts = []
    for dtype, spelled in integers.items():
        text = _UNSIGNED_DIVISION if dtype.startswith("u") else _SIGNED_DIVISION
        unsigned = integers.get(f"u{dtype}", spelled)
        parts.append(text.format(q=qualifier, t=spelled, u=unsigned, dtype=dtype))
    return "\n".join(parts)
