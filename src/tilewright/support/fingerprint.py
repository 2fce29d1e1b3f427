"""Digests that name what was compiled and by what: of a model file, and of the compiler itself."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from functools import cache
from pathlib import Path

from tilewright.support.cache import digest

#: How the `location` of external tensor data stands in a model file: the key, then the length and bytes of the value.
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x01-\x7f])")


def model_digest(path: Path) -> str:
    """A digest of a model file's contents and of those of the external data files that it names."""
    parts = [file_digest(path)]
    for name in external_data(path):
        data = path.parent / name
        parts += [name, file_digest(data) if data.is_file() else ""]
    return parts[0] if len(parts) == 1 else digest(*parts)


def file_digest(path: Path) -> str:
    """SHA-256 of the contents of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def external_data(path: Path) -> list[str]:
    """The names of the files that hold an ONNX model's external data, found without parsing the model.

    A match within the bytes of a weight only makes the key depend on one more file name.
    """
    if path.stat().st_size == 0:
        return []
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as contents:
        values = [contents[m.end() : m.end() + m.group(1)[0]] for m in _LOCATION.finditer(contents)]
    return list(dict.fromkeys(os.fsdecode(value) for value in values if b"\0" not in value))


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
