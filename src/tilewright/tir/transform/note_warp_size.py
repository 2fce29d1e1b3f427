"""Record for later passes how many threads can read each other's values."""

from __future__ import annotations

from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc


def note_warp_size(func: PrimFunc, target: Target | None) -> PrimFunc:
    """`func` with the attribute "thread_warp_size" where the threads of a warp of `target` can shuffle values.

    def f(x: float32[8]):                      def f(x: float32[8]):
        …                            =>            # thread_warp_size = 32
                                                   …

    Where only the device itself knows the number, the attribute "subgroups" is set.
    """
    width = 1 if target is None else target.shuffle_width
    if target is not None and target.has_subgroups:
        return func.with_attr("subgroups", True)
    return func if width <= 1 else func.with_attr("thread_warp_size", width)
