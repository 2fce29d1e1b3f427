"""Uploaded files of a device, under the digest of their contents, bounded, least recently used out first.

An upload is written to a file of its own and appears under its digest only when all of it is there and has that digest.
So the second upload of an artifact sends nothing, a broken one leaves nothing, and what a session loads is what its
client hashed. The digest is BLAKE2b of 32 bytes: as strong as SHA-256, and fast without instructions for it.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tilewright.errors import EnvironmentError_, InputError
from tilewright.rpc.frames import CHUNK, Channel

_DIGEST = re.compile(r"[0-9a-f]{64}")


def digest_of(path: str | os.PathLike[str]) -> str:
    """The digest of a file. Raises `InputError` where it cannot be read."""
    state = _state()
    try:
        with open(path, "rb") as file:
            while part := file.read(CHUNK):
                state.update(part)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    return state.hexdigest()


class Store:
    """A folder of uploaded files, of at most `most_bytes`."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.folder = folder
        self.most_bytes = most_bytes
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        for left in folder.glob("upload-*"):  # of a server that was killed
            left.unlink(missing_ok=True)

    def path(self, digest: str) -> Path:
        """The path of a digest's file. Raises `InputError` if it was not uploaded."""
        position = self._position(digest)
        if not position.is_file():
            raise InputError(f"nothing was uploaded under {digest[:16]}…")
        with suppress(OSError):
            os.utime(position)
        return position

    def has(self, digest: str, size: int) -> bool:
        """True if the file is there whole. Raises `InputError` for one that this store never takes."""
        if size > self.most_bytes:
            raise InputError(f"{size} bytes are more than this device stores ({self.most_bytes})")
        position = self._position(digest)
        return position.is_file() and position.stat().st_size == size

    def receive(self, channel: Channel, digest: str) -> Path:
        """Take an upload off a channel: the bytes of the frame at hand.

        Raises `InputError` if they have another digest, `EnvironmentError_` if the disk is full; the bytes are then
        read and dropped, so that the connection can go on.
        """
        position = self._position(digest)
        self._make_room(channel.left)
        try:
            handle, name = tempfile.mkstemp(prefix="upload-", dir=self.folder)
        except OSError as error:
            raise EnvironmentError_(f"the device cannot store the upload: {error.strerror or error}") from None
        try:
            with os.fdopen(handle, "wb", buffering=0) as file:
                found, failure = _received(channel, file)
            if failure is not None:
                raise EnvironmentError_(f"the device cannot store the upload: {failure.strerror or failure}")
            if found != digest:
                raise InputError("the upload has another digest than was announced: it was changed on its way")
            os.chmod(name, 0o444)
            os.replace(name, position)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name)
        return position

    def _position(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise InputError(f"{digest!r:.80} is no digest, which is 64 hexadecimal digits")
        return self.folder / digest

    def _make_room(self, size: int) -> None:
        """Remove what was not used for longest until `size` more bytes fit."""
        with self._lock:
            held = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in self.folder.iterdir())
            total = sum(length for _, length, _ in held) + size
            for _, length, path in held:
                if total <= self.most_bytes:
                    return
                path.unlink(missing_ok=True)
                total -= length


def _received(channel: Channel, file: object) -> tuple[str, OSError | None]:
    """Write the bytes of the frame at hand to a file; their digest, and the error if the file did not take them.

    A thread hashes a part while it is written and the next one is read, which takes as long.
    """
    state, failure = _state(), None
    buffers = [memoryview(bytearray(min(channel.left, CHUNK))) for _ in range(2)]
    with ThreadPoolExecutor(1, thread_name_prefix="upload") as beside:
        before: Future[None] | None = None
        while channel.left:
            part = buffers[0][: min(channel.left, CHUNK)]
            channel.receive_into(part)
            if before is not None:
                before.result()
            before = beside.submit(state.update, part)
            failure = failure or _written(file, part)
            buffers.reverse()
    return state.hexdigest(), failure


def _written(file: object, part: memoryview) -> OSError | None:
    """Write all of `part`; the error if that fails."""
    try:
        while len(part):
            part = part[file.write(part) :]  # type: ignore[attr-defined]
    except OSError as error:
        return error
    return None


def _state() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=32)
