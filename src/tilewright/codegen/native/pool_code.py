"""The worker pool's object code: compiled once for each architecture, and kept in the disk cache under its text.

Importing `tilewright.codegen` makes it what the runtime of this process takes where no artifact brings one.
"""

from __future__ import annotations

from tilewright.codegen.llvm.object import emit_as_it_stands
from tilewright.codegen.native.pool import pool_text
from tilewright.errors import EnvironmentError_
from tilewright.runtime.processor import host_architecture
from tilewright.support.cache import DiskCache, digest, open_cache
from tilewright.target import Target


def pool_code(architecture: str = "") -> bytes:
    """The pool for this machine or another `architecture`: 50 ms where it has to be compiled, half of them for LLVM."""
    architecture = architecture or host_architecture()
    text = pool_text(architecture)
    key = digest("native", architecture, text)
    try:
        cache = open_cache()
    except EnvironmentError_:
        # Whoever needs the cache for its own sake reports that; running a model does not.
        cache = DiskCache(None)
    known = cache.get("native", key)
    if known is not None and known[:4] == b"\x7fELF":
        return known
    made = compile_text(text, architecture)
    cache.put("native", key, made)
    return made


def compile_text(text: str, architecture: str = "") -> bytes:
    """The object code of IR text, written for the baseline processor of an architecture (default: this machine's)."""
    return emit_as_it_stands(text, Target(f"llvm -mtriple={architecture or host_architecture()}-linux-gnu"))
