"""Tolerances between two right results by the type of their numbers, as `verify` and `bisect` have them.

A result passes if max|ours - reference| <= atol + rtol * max|reference|. Two engines add in different orders and use
other polynomials; what that costs depends on how many bits the numbers have. Integers and truth values are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.frontend.reference import Reference


@dataclass(frozen=True)
class Bound:
    """`rtol` times the largest reference value, and `atol`, below which nothing is compared, are allowed."""

    rtol: float
    atol: float

    def __str__(self) -> str:
        return f"{self.rtol:g} x max|ref| + {self.atol:g}"


EXACT = Bound(0.0, 0.0)
#: A code may be rounded up here and down there: one step.
STEP = Bound(0.0, 1.0)
#: From fine to coarse. Sums of thousands of numbers lose some 800 units in the last place of float32 and float64; the
#: narrower types are widened for sums, but rounded between operators: some ten units. Where values are rounded to codes
#: of 8 bits, right engines differ by some steps of 1/255: smart_turn_v3_int8 by 2.5e-3 of its largest output. Rounding
#: operands to bfloat16 (bf16) adds errors of up to 2^-9 of each: ViT's largest output is off by 7e-3, and by 1.5e-5
#: with two bfloat16 for each (tf32-like), 3e-3 with float16 (f16). What is left of
#: numbers near 1 that cancel is the floor: eight units of float32, and less than one of the narrow types.
_KINDS = {
    "float64": Bound(1e-9, 1e-12),
    "float32": Bound(1e-4, 1e-6),
    "tf32-like": Bound(5e-4, 1e-6),
    "float16": Bound(1e-2, 1e-4),
    "f16": Bound(1e-2, 1e-4),
    "codes": Bound(2e-2, 1e-6),
    "bf16": Bound(2e-2, 1e-4),
    "bfloat16": Bound(8e-2, 1e-3),
    "float8": Bound(0.5, 0.1),
    "float4": Bound(1.0, 0.5),
}
_ORDER = list(_KINDS)


@dataclass(frozen=True)
class Bounds:
    """The bound of each value of a model: by its type, and the coarsest kind of number that the model computes in.

    `rtol` and `atol`, where they are given, stand for those of every type.
    """

    coarsest: str = "float64"
    rtol: float | None = None
    atol: float | None = None

    def of(self, dtype: np.dtype[Any]) -> Bound:
        """The bound of a value of NumPy type `dtype`."""
        kind = float_kind(dtype.name)
        if kind is not None:
            usual = _KINDS[max(kind, self.coarsest, key=_ORDER.index)]
        else:
            usual = STEP if self.coarsest == "codes" and dtype.name in ("uint8", "int8") else EXACT
        return Bound(usual.rtol if self.rtol is None else self.rtol, usual.atol if self.atol is None else self.atol)


def float_kind(name: str) -> str | None:
    """The row of the table for a type: itself, or `float8` for `float8_e4m3fn`; None for what is no float."""
    return next((kind for kind in _ORDER if name == kind or name.startswith(f"{kind}_")), None)


def bounds_of(reference: Reference, rtol: float | None, atol: float | None, precision: str | None = None) -> Bounds:
    """The bounds of a reference's model, by the floats that it computes in, codes where it quantizes, and the precision
    that it is compiled with."""
    kinds = [float_kind(name) for name in (*reference.number_kinds(), precision or "")]
    return Bounds(max((kind for kind in kinds if kind is not None), key=_ORDER.index, default="float64"), rtol, atol)
