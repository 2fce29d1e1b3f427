"""Operators that run on the host in NumPy: data-dependent shapes, sequences, strings. One registry, `find` by name."""

from __future__ import annotations

from tilewright.runtime.host_ops import (
    accelerator,
    checks,
    classic,
    detection,
    dynamic,
    external,
    indexing,
    linalg,
    lists,
    ml,
    random,
    resize,
    selection,
    sequences,
    shapes,
    signals,
    ssd,
    strings,
    threefry,
)
from tilewright.runtime.host_ops.registry import HOST_OPS, HostOp, find, host_op

__all__ = [
    "HOST_OPS",
    "HostOp",
    "accelerator",
    "checks",
    "classic",
    "detection",
    "dynamic",
    "external",
    "find",
    "host_op",
    "indexing",
    "linalg",
    "lists",
    "ml",
    "random",
    "resize",
    "selection",
    "sequences",
    "shapes",
    "signals",
    "ssd",
    "strings",
    "threefry",
]
