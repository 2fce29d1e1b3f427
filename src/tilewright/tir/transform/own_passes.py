"""The passes that a declared accelerator brings along, on the loops as they come from the schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.tir.stmt import PrimFunc


def own_passes(func: PrimFunc, passes: Sequence[Callable[[PrimFunc], PrimFunc]]) -> PrimFunc:
    """`func` after the passes, one after the other.

    for i in range(4):   # alu = true          with attribute("coproc_scope", 2):
        T[i] = U[i] + 1                 =>         for i in range(4):
                                                       T[i] = U[i] + 1
    """
    for one in passes:
        func = one(func)
    return func
