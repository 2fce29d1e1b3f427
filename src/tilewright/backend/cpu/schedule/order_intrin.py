"""The tensor intrinsic that puts the depth of a row in the order of a panel: bytes move within sixteen of them.

c = shuffle(data, order) ^ (255 where the order says so)
"""

from __future__ import annotations

import functools
import math

from tilewright import te, tir
from tilewright.codegen.llvm.table_lookup import lookup_instruction
from tilewright.target import Target
from tilewright.tir import op
from tilewright.tir.table_lookup import ENTRIES, lookup
from tilewright.topi.nn.dot_product import ordered_byte


def order_windows(windows: int, target: Target) -> int:
    """Windows of 16 bytes, of so many, that one instruction puts in order."""
    widest = (many for many in (4, 2) if lookup_instruction(target, many * ENTRIES))
    return math.gcd(windows, next(widest, 1))


@functools.cache
def order_intrin(windows: int) -> te.TensorIntrin:
    """c[w, k] = ordered_byte(data[16 * w + ...], order[16 * w + k]) for 16 values of k in each window."""
    lanes = windows * ENTRIES
    data, order = (te.placeholder((lanes,), "uint8", name=name) for name in ("data", "order"))

    def element(w: tir.Expr, k: tir.Expr) -> tir.Expr:
        first = w * ENTRIES if windows > 1 else op.const(0)
        return ordered_byte(lambda column: data[first + column], order[first + k])

    c = te.compute((windows, ENTRIES), element, name="in_order")

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tir.Stmt:
        by_name, (moved,) = {buffer.name: buffer for buffer in ins}, outs
        run, kind = tir.Ramp(op.const(0), op.const(1), lanes), f"uint8x{lanes}"
        source, named = (tir.BufferLoad(by_name[name], (run,)) for name in ("data", "order"))

        def bits(name: str, x: tir.Expr, y: int) -> tir.Expr:
            return op.call_intrin(kind, name, x, tir.Broadcast(op.const(y, "uint8"), lanes))

        turned = tir.Broadcast(op.const(0, "uint8"), lanes) - bits("shift_right", named, 4)
        value = op.call_intrin(kind, "bitwise_xor", lookup(source, bits("bitwise_and", named, ENTRIES - 1)), turned)
        return tir.BufferStore(moved, value, (op.const(0), run))

    return te.decl_tensor_intrin(c.op, statements, name=f"in_order_{windows}")
