"""The kernel that copies bytes, for a model that returns an input, a constant, or one value twice."""

from __future__ import annotations

from tilewright import te
from tilewright.tir.stmt import PrimFunc


def copy_kernel(nbytes: int, name: str) -> PrimFunc:
    """A function (source, destination) that copies `nbytes` bytes."""
    source = te.placeholder((nbytes,), "uint8", "source")
    copied = te.compute((nbytes,), lambda i: source[i], "copied")
    s = te.create_schedule(copied.op)
    if nbytes % 64 == 0:
        _, lane = s[copied].split(copied.op.axis[0], factor=64)
        s[copied].vectorize(lane)
    return te.lower(s, [source, copied], name)
