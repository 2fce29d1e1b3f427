"""The reference loop: a chain of multiply-adds that wait for each other, in no need of memory.

Its time shows the clock of the processor and nothing else, so that what is measured while that is slower can be
recognized from what is slower.
"""

from __future__ import annotations

from tilewright import te
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc

#: Steps of the loop.
LOOP_STEPS = 4096


def reference_loop(target: Target) -> PrimFunc:
    """The loop as a function of an array of `LOOP_STEPS` numbers and one for their sum."""
    terms = te.placeholder((LOOP_STEPS,), "float32", "terms")
    k = te.reduce_axis((0, LOOP_STEPS), "k")
    total = te.compute((1,), lambda i: te.sum(terms[k], axis=k), name="total")
    s = te.create_schedule(total.op)
    if target.has_thread_blocks:  # one thread of a device
        s[total].bind(total.op.axis[0], te.thread_axis((0, 1), "threadIdx.x"))
    *_, (_, func) = te.lower_stages(s, [terms, total], "reference_loop", target=target)
    return func
