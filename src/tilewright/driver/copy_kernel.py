"""The kernel that copies bytes, for a model that returns an input, a constant, or one value twice."""

from __future__ import annotations

from tilewright import te
from tilewright.tir.stmt import PrimFunc


def copy_kernel(nbytes: int | None) -> PrimFunc:
    """A function (source, destination) that copies `nbytes` bytes; for None (source, destination, count of bytes)."""
    count = te.size_var("count") if nbytes is None else nbytes
    source = te.placeholder((count,), "uint8", "source")
    copied = te.compute((count,), lambda i: source[i], "copied")
    s = te.create_schedule(copied.op)
    if nbytes is None or nbytes % 64 == 0:
        _, lane = s[copied].split(copied.op.axis[0], factor=64)
        s[copied].vectorize(lane)
    if nbytes is None:
        return te.lower(s, [source, copied, count], "copy_bytes")
    return te.lower(s, [source, copied], f"copy_{nbytes}")
