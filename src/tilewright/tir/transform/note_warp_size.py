"""Tell the passes that come how many threads can read each other's values."""

from __future__ import annotations

from tilewright.target import DeviceTarget, Target
from tilewright.tir.stmt import PrimFunc

#: Kinds of device whose languages have warp shuffles.
SHUFFLING_KINDS = ("cuda", "metal")


def note_warp_size(func: PrimFunc, target: Target | None) -> PrimFunc:
    """`func` with the attribute "thread_warp_size" where the threads of a warp of `target` can shuffle values.

    def f(x: float32[8]):                      def f(x: float32[8]):
        …                            =>            # thread_warp_size = 32
                                                   …
    """
    if not isinstance(target, DeviceTarget) or target.kind not in SHUFFLING_KINDS or target.thread_warp_size <= 1:
        return func
    return func.with_attr("thread_warp_size", target.thread_warp_size)
