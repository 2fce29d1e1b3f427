"""The kernel that copies bytes, for a model that returns an input, a constant, or one value twice."""

from __future__ import annotations

from tilewright import te
from tilewright.runtime.plan import COPY
from tilewright.tir.stmt import PrimFunc


def copy_kernel(name: str) -> PrimFunc:
    """The function of a copy's `name`: "copy_64" copies 64 bytes from its first argument to its second.

    "copy_bytes" takes the count of bytes as a third.
    """
    fixed = name.removeprefix(COPY)
    count = int(fixed) if fixed.isdigit() else te.size_var("count")
    source = te.placeholder((count,), "uint8", "source")
    copied = te.compute((count,), lambda i: source[i], "copied")
    s = te.create_schedule(copied.op)
    if not isinstance(count, int) or count % 64 == 0:
        _, lane = s[copied].split(copied.op.axis[0], factor=64)
        s[copied].vectorize(lane)
    return te.lower(s, [source, copied, *([] if isinstance(count, int) else [count])], name)
