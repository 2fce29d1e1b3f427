"""Lookups in a table of sixteen bytes, and masks of lanes: instructions of x86 (pshufb, vptestmb) and of NEON (tbl).

`lookup(table, index)` is a call that the code generator spells by the target's instruction: lane i is
table[index[i]], of a table of 16 bytes and as many indices as there are lanes, each below 16, or 255 for a lane of 0.
Of a table as long as the index each 16 lanes look up in the 16 bytes at their own positions.
`mask_bits(lanes)` is the word whose bit i is lane i of a vector of bools.
"""

from __future__ import annotations

from tilewright.errors import InternalError
from tilewright.tir.expr import Call, Expr

#: Bytes of a table, and the index of no entry.
ENTRIES, NONE = 16, 255


def lookup(table: Expr, index: Expr) -> Call:
    """Lane i: table[index[i]], where `table` is uint8x16 and the indices are uint8; 0 where an index is 255.

    Of a longer `table`, typed as `index`: table[16 * (i // 16) + index[i]].
    """
    fits = table.dtype.lanes in (ENTRIES, index.dtype.lanes) and index.dtype.lanes % ENTRIES == 0
    if table.dtype.element != "uint8" or not fits or index.dtype.element != "uint8":
        raise InternalError(f"lookup takes {ENTRIES} uint8 and uint8 indices, not {table.dtype} and {index.dtype}")
    return Call(index.dtype, "table_lookup", (table, index))


def mask_bits(lanes: Expr) -> Call:
    """The unsigned word whose bit i is lane i of bools."""
    if not lanes.dtype.is_bool or lanes.dtype.lanes not in (8, 16, 32):
        raise InternalError(f"mask_bits takes 8, 16 or 32 bools, not {lanes.dtype}")
    return Call(f"uint{lanes.dtype.lanes}", "mask_bits", (lanes,))
