"""Digests that name what was compiled and by what: of a model file, and of the compiler itself."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

from tilewright.support.cache import digest

_CHUNK = 1 << 22


def file_digest(path: Path) -> str:
    """SHA-256 of the contents of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@cache
def compiler_fingerprint() -> str:
    """A digest of the compiler's own sources (by size and time of change) and of the code generator's version.

    A changed compiler never takes code from the cache that an earlier one wrote.
    """
    import llvmlite

    root = Path(__file__).resolve().parent.parent
    rows = []
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(n for n in names if n.endswith(".py")):
            stat = os.stat(os.path.join(folder, name))
            rows.append(f"{folder[len(str(root)) :]}/{name} {stat.st_size} {stat.st_mtime_ns}")
    return digest("\n".join(rows), llvmlite.__version__)
