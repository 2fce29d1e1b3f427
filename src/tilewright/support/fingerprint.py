"""Digests that name what was compiled and by what: of a model file, and of the compiler itself."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import time
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from tilewright.support.cache import DiskCache, digest

#: How the `location` of external tensor data stands in a model file: the key, then the length and bytes of the value.
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x01-\x7f])")


#: Reading a file this large again only to find it unchanged takes longer than everything else in a load.
_LARGE = 32 << 20
#: A file changed this short a time ago may change again without its times showing it.
_SETTLED_SECONDS = 2.0


def model_digest(path: Path, store: DiskCache | None = None) -> str:
    """A digest of a model file's contents and of those of the external data files that it names.

    `store` remembers the digests of large files by their position, size and times, as a version control system does.
    """
    digest_of = partial(_remembered, store=store) if store is not None else _scan
    own, *names = digest_of(path)
    parts = [own]
    for name in names:
        data = path.parent / name
        parts += [name, digest_of(data)[0] if data.is_file() else ""]
    return parts[0] if len(parts) == 1 else digest(*parts)


def contents_digest(model: Any, store: DiskCache) -> str | None:
    """A digest of what a model is: of a file by its path, of bytes, of a protocol buffer; None for any other object."""
    if isinstance(model, str | os.PathLike):
        return model_digest(Path(model), store) if Path(model).is_file() else None
    if isinstance(model, bytes):
        return digest(model)
    if type(model).__name__ == "ModelProto":
        with suppress(Exception):  # protobuf's EncodeError: more than 2 GB, for which it has no encoding
            return digest(model.SerializeToString(deterministic=True))
    return None


def _scan(path: Path) -> list[str]:
    """The digest of a file, and the external data files that it names."""
    return [file_digest(path), *external_data(path)]


def _remembered(path: Path, store: DiskCache) -> list[str]:
    """The result of `_scan`, from `store` when the file is large and unchanged."""
    before = path.stat()
    if before.st_size < _LARGE:
        return _scan(path)
    identity = (before.st_dev, before.st_ino, before.st_size, before.st_mtime_ns, before.st_ctime_ns)
    key = digest(str(path.resolve()), repr(identity))
    known = store.get("digest", key)
    if known is not None:
        return [str(entry) for entry in json.loads(known)]
    found = _scan(path)
    if time.time() - max(before.st_mtime, before.st_ctime) > _SETTLED_SECONDS:
        store.put("digest", key, json.dumps(found).encode())
    return found


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
    # a saved model does without LLVM
    import llvmlite

    root = Path(__file__).resolve().parent.parent
    rows = []
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(n for n in names if n.endswith((".py", ".txt"))):
            stat = os.stat(os.path.join(folder, name))
            rows.append(f"{folder[len(str(root)) :]}/{name} {stat.st_size} {stat.st_mtime_ns}")
    return digest("\n".join(rows), llvmlite.__version__)
