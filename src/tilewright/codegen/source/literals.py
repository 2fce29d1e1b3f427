"""Constants as text: exact, of the type they have in the loop IR."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.support.dtype import DType

_LOWEST_INT32, _LOWEST_INT64 = -(2**31), -(2**63)


def c_literal(dtype: DType, value: Any, infinity: str = "INFINITY", nan: str = "NAN", wide: str = "ll") -> str:
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


def floor_division(qualifier: str, signed: Mapping[str, str]) -> str:
    """Functions that divide rounding down, for each signed type of `signed` (element type to its name)."""
    lines = []
    for dtype, spelled in signed.items():
        lines += [
            f"{qualifier}{spelled} tilewright_floordiv_{dtype}({spelled} a, {spelled} b) {{",
            f"  {spelled} q = a / b;",
            "  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;",
            "}",
            f"{qualifier}{spelled} tilewright_floormod_{dtype}({spelled} a, {spelled} b) {{",
            f"  {spelled} r = a % b;",
            "  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;",
            "}",
        ]
    return "\n".join(lines)
