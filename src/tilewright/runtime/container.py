"""The file behind artifacts and saved modules: header, JSON manifest, object code, weights (docs/artifact.md).

The weights start on a page boundary and are mapped, not read. Header, manifest and code are covered by a checksum; the
weights by their length, because reading gigabytes to check them would cost more than everything else in loading; who
wants that checked requests it (`weights_sum.py`).
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import stat
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tilewright.errors import ArtifactError
from tilewright.runtime.memory import ALIGNMENT, Array, round_up
from tilewright.runtime.native import PoolCode
from tilewright.runtime.signing import Key, check_signature
from tilewright.support.cache import atomic_file, content_length

MAGIC = b"\x89TILEWRIGHT\r\n\x1a\n\x00"
VERSION = 2
PAGE = 4096

# magic, version, header bytes, then offset and length of manifest, code and weights, then the length of the file
_HEADER = struct.Struct("<16sII7Q")
_DIGEST_BYTES = 32
_HEADER_BYTES = 128
_POOL = "pool"  # the manifest's key for what is known of the native runtime's object code

WeightPart = tuple[int, Any]  # (offset within the weights, buffer)


@dataclass(frozen=True)
class Container:
    """The contents of a file; `weights` is its mapped, read-only last section, as bytes.

    `pool` is the native runtime of whoever wrote it, None when the file has none.
    """

    manifest: dict[str, Any]
    object_code: bytes
    weights: Array
    pool: PoolCode | None = None


@dataclass(frozen=True)
class _Layout:
    """Offset and length of each section, and the length of the file. Of given lengths there is just one."""

    manifest: tuple[int, int]
    code: tuple[int, int]
    weights: tuple[int, int]
    file_bytes: int

    @classmethod
    def of(cls, manifest: int, code: int, pool: int, weights: int) -> _Layout:
        """The layout of sections of these lengths in bytes."""
        code_offset = round_up(_HEADER_BYTES + manifest, ALIGNMENT)
        weights_offset = round_up(round_up(code_offset + code, ALIGNMENT) + pool, PAGE)
        sections = (_HEADER_BYTES, manifest), (code_offset, code), (weights_offset, weights)
        return cls(*sections, weights_offset + weights)

    @property
    def behind_code(self) -> int:
        """The offset of the native runtime's code, where the file has one."""
        return round_up(sum(self.code), ALIGNMENT)

    def pack(self) -> bytes:
        sections = (*self.manifest, *self.code, *self.weights)
        return _HEADER.pack(MAGIC, VERSION, _HEADER_BYTES, *sections, self.file_bytes)


def write_container(
    path: str | os.PathLike[str],
    manifest: Mapping[str, Any],
    object_code: bytes,
    weights: Iterable[WeightPart] = (),
    weights_bytes: int = 0,
    durable: bool = True,
    pool: PoolCode | None = None,
) -> None:
    """Write a file atomically. The parts of the weights are written one by one, in order of offset, as they come.

    `pool` is put behind the object code, so that whoever loads the file need not compile it. `durable` waits until the
    file is on the disk, so that it survives a crash of the machine too. Raises `ArtifactError` when it cannot be
    written; what was at `path` before is then untouched.
    """
    target = Path(path)
    pool_code = b"" if pool is None else pool.code
    noted = dict(manifest) | ({} if pool is None else {_POOL: _describe_pool(pool)})
    text = json.dumps(noted, indent=1, ensure_ascii=False).encode() + b"\n"
    layout = _Layout.of(len(text), len(object_code), len(pool_code), weights_bytes)
    try:
        with atomic_file(target, durable) as temporary, open(temporary, "r+b") as file:
            header = layout.pack()
            file.write(header + _digest(header, text, object_code))
            _write_at(file, layout.manifest[0], text)
            _write_at(file, layout.code[0], object_code)
            _write_at(file, layout.behind_code, pool_code)
            for offset, part in weights:
                _write_at(file, layout.weights[0] + offset, part)
            file.truncate(layout.file_bytes)
    except OSError as error:
        raise ArtifactError(f"cannot write {target}: {error.strerror or error}") from None


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    """A file for reading. Raises `ArtifactError` for a pipe or a device, which might never be opened."""
    if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
        raise ArtifactError(
            f"cannot read {path}: it is a pipe or a device, and artifacts are mapped; write it to a file"
        )
    return open(path, "rb")


def is_container(path: str | os.PathLike[str]) -> bool:
    """True if the file begins like one of ours (it may still be damaged)."""
    return begins_with(path, MAGIC)


def begins_with(path: str | os.PathLike[str], magic: bytes) -> bool:
    """True if there is a file that begins so; a pipe, whose writer would be waited for, does not."""
    try:
        with _opened(path) as file:
            return file.read(len(magic)) == magic
    except (OSError, ArtifactError):
        return False


def container_format(path: str | os.PathLike[str]) -> str:
    """The format stated in the manifest of a file of ours, before anything is checked. Raises `ArtifactError`."""
    try:
        with _opened(path) as file:
            layout, _, _ = _read_header(path, file)
            manifest = json.loads(_read_section(file, *layout.manifest))
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is damaged: its manifest is no JSON text ({error}). Compile again") from None
    return str(manifest.get("format")) if isinstance(manifest, dict) else ""


def contained(content: bytes) -> bytes:
    """The file of ours that `content` begins with, without what follows; all of it where its header is not whole."""
    return content[: _HEADER.unpack_from(content)[-1]] if len(content) >= _HEADER_BYTES else content


def read_container(path: str | os.PathLike[str], kind: str, verify: Key | None = None) -> Container:
    """Open and check a file whose manifest's ``format`` is `kind`. Raises `ArtifactError` saying what is wrong.

    With `verify`, nothing is read of a file that the owner of that public key did not sign.
    """
    try:
        with _opened(path) as file:
            if verify is not None:
                check_signature(path, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), verify)
            layout, header, digest = _read_header(path, file)
            text = _read_section(file, *layout.manifest)
            code = _read_section(file, *layout.code)
            pool_code = _read_section(file, layout.behind_code, max(0, layout.weights[0] - layout.behind_code))
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError:  # of mmap
        raise ArtifactError(f"{path} is empty, and so not a Tilewright artifact") from None
    if _digest(header, text, code) != digest:
        raise ArtifactError(f"{path} is damaged: its checksum does not match. Compile the model again")
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is damaged: its manifest is no JSON text ({error}). Compile again") from None
    if not isinstance(manifest, dict):
        raise ArtifactError(f"{path} is damaged: its manifest is no JSON object. Compile again")
    if manifest.get("format") != kind:
        raise ArtifactError(f"{path} holds a {manifest.get('format')}, not a {kind}")
    pool = _read_pool(path, manifest.pop(_POOL, None), pool_code)
    offset, length = layout.weights
    if layout != _Layout.of(len(text), len(code), 0 if pool is None else len(pool.code), length):
        raise ArtifactError(f"{path} is damaged: its sections do not follow each other. Compile the model again")
    weights = np.frombuffer(mapping, np.uint8, length, offset) if length else np.zeros(0, np.uint8)
    return Container(manifest, code, weights, pool)


def _describe_pool(pool: PoolCode) -> dict[str, Any]:
    return {"key": pool.key, "bytes": len(pool.code), "sha256": hashlib.sha256(pool.code).hexdigest()}


def _read_pool(path: str | os.PathLike[str], note: Mapping[str, Any] | None, behind_code: bytes) -> PoolCode | None:
    """The native runtime that the manifest's `note` tells of, out of the bytes between code and weights."""
    if note is None:
        return None
    try:
        key, length = str(note["key"]), int(note["bytes"])
        code = behind_code[: max(length, 0)]
        if len(code) != length or hashlib.sha256(code).hexdigest() != note["sha256"]:
            raise ArtifactError(f"{path} is damaged: the checksum of its native runtime does not match")
        return PoolCode(key, code)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ArtifactError(f"{path} has an incomplete manifest ({error!r}). Compile the model again") from None


def _read_header(path: str | os.PathLike[str], file: BinaryIO) -> tuple[_Layout, bytes, bytes]:
    """The layout, the header bytes that the checksum covers, and the checksum that the file records."""
    head = file.read(_HEADER_BYTES)
    if head[: len(MAGIC)] != MAGIC:
        raise ArtifactError(f"{path} is not a Tilewright artifact")
    version = int.from_bytes(head[16:20], "little")
    if len(head) >= 20 and version != VERSION:
        raise ArtifactError(
            f"{path} has artifact version {version}; this Tilewright reads version {VERSION}. Compile the model again"
        )
    actual = content_length(file)
    if len(head) < _HEADER_BYTES:
        raise ArtifactError(f"{path} is truncated: it ends within its header, after {actual} bytes")
    fields = _HEADER.unpack_from(head)[3:]
    layout = _Layout(fields[0:2], fields[2:4], fields[4:6], fields[6])
    if actual != layout.file_bytes:
        damage = "truncated" if actual < layout.file_bytes else "damaged"
        raise ArtifactError(f"{path} is {damage}: it has {actual} bytes, its header says {layout.file_bytes}")
    if any(offset + length > actual for offset, length in (layout.manifest, layout.code, layout.weights)):
        raise ArtifactError(f"{path} is damaged: a section lies outside the file. Compile the model again")
    return layout, head[: _HEADER.size], head[_HEADER.size : _HEADER.size + _DIGEST_BYTES]


def _digest(header: bytes, manifest: bytes, code: bytes) -> bytes:
    state = hashlib.sha256(header)
    state.update(manifest)
    state.update(code)
    return state.digest()


def _read_section(file: BinaryIO, offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(length)


def _write_at(file: BinaryIO, offset: int, data: Any) -> None:
    """Write a buffer at an offset; the gap since the last write reads as zeros."""
    file.seek(offset)
    view: Any = data.reshape(-1).view(np.uint8) if isinstance(data, np.ndarray) else data
    file.write(view)
