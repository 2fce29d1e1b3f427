"""The codes that stand for sizes of the input in the shape of a `reshape`: 0, -2, -3 and -4."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.relay.ir.type import Dim
from tilewright.relay.op.common import require


def resolved_shape(shape: Sequence[Dim], newshape: Sequence[Dim]) -> list[Dim]:
    """`newshape` with its codes replaced by what they stand for in `shape`; -1 stays.

    Codes read `shape` from the left: each takes the size or sizes behind those that the entries before it took, and a
    plain size or -1 takes one. In the shape of a tensor without elements 0 is that size itself.

    Raises `TypeMismatchError` for a code behind the last size, and for one that does not divide it.
    """
    codes, empty = list(newshape), any(isinstance(size, int) and size == 0 for size in shape)
    result: list[Dim] = []
    source, position = 0, 0
    while position < len(codes):
        code = codes[position]
        position += 1
        if not isinstance(code, int) or code == -1 or code > 0 or (code == 0 and empty):
            result.append(code)
            source += 1
        elif code == 0:
            result.extend(_sizes(shape, newshape, source, 1))
            source += 1
        elif code == -2:
            result.extend(shape[source:])
            source = len(shape)
        elif code == -3:
            result.append(math.prod(_sizes(shape, newshape, source, 2)))
            source += 2
        else:
            require(code == -4, f"{code} in the shape {tuple(newshape)}: a size, or one of 0, -1, -2, -3, -4 is needed")
            require(position + 2 <= len(codes), f"-4 in the shape {tuple(newshape)} needs two sizes behind it")
            result.extend(_divided(_sizes(shape, newshape, source, 1)[0], codes[position], codes[position + 1]))
            source, position = source + 1, position + 2
    return result


def _sizes(shape: Sequence[Dim], newshape: Sequence[Dim], source: int, count: int) -> Sequence[Dim]:
    found = shape[source : source + count]
    require(len(found) == count, f"the codes of the shape {tuple(newshape)} need more sizes than {tuple(shape)} has")
    return found


def _divided(size: Dim, first: Dim, second: Dim) -> tuple[Dim, Dim]:
    """`size` as a product of the two sizes, one of which may be -1."""
    unknown = [isinstance(part, int) and part == -1 for part in (first, second)]
    require(not all(unknown), "behind -4 in the shape of a reshape only one of the two sizes may be -1")
    if any(unknown):
        known = second if unknown[0] else first
        fits = not isinstance(size, int) or not isinstance(known, int) or (known > 0 and size % known == 0)
        require(fits, f"a size of {size} does not divide into {first} and {second}")
        rest = size // known
        return (rest, known) if unknown[0] else (known, rest)
    return first, second
