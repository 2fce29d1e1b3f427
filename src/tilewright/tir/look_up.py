"""Look-ups of codes of up to four bits in a table of floats: one instruction with AVX-512, a few with AVX2 and NEON.

`look_up(index, table)` is a call that the code generator spells by the target's instruction; `expand_look_up` is the
same as choices by the bits of the index.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import InternalError
from tilewright.support.dtype import DType
from tilewright.tir import op
from tilewright.tir.expr import Broadcast, Call, Expr

#: Numbers of a table, as many as a vector of AVX-512 has.
ENTRIES = 16


def look_up(index: Expr, table: Sequence[float]) -> Call:
    """The number of a table that an int32, or each lane of a vector of them, names by its lowest bits.

    `table` has a power of two of numbers, up to 16: as many bits of the index count, whatever the others are.
    """
    if not table or ENTRIES % len(table) or index.dtype.element != "int32":
        raise InternalError(
            f"a look-up takes int32 and 1, 2, 4, 8 or {ENTRIES} numbers, not {index.dtype}, {len(table)}"
        )
    repeated = [op.const(float(x), "float32") for x in table] * (ENTRIES // len(table))
    return Call(DType("float32").with_lanes(index.dtype.lanes), "look_up", (index, *repeated))


def numbers_of(call: Call) -> list[Expr]:
    """The numbers of the table of a `look_up`, which a vectorized loop repeats in each lane."""
    return [x.value if isinstance(x, Broadcast) else x for x in call.args[1:]]


def expand_look_up(call: Call) -> Expr:
    """The value of a `look_up` by choices, one bit of the index after the other."""
    index, lanes = call.args[0], call.dtype.lanes
    values = [op.broadcast(x, lanes) if lanes > 1 else x for x in numbers_of(call)]
    bit = 1
    while len(values) > 1:
        part = op.call_intrin(index.dtype, "bitwise_and", index, op.const(bit, index.dtype))
        odd = part > op.const(0, index.dtype)
        values = [x if x is y else op.select(odd, y, x) for x, y in zip(values[::2], values[1::2], strict=True)]
        bit *= 2
    return values[0]
