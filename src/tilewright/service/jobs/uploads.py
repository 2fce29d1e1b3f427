"""Files that owners sent: a row each, and the bytes in the service's folder."""

from __future__ import annotations

import hashlib
import secrets
import time
from pathlib import Path

from sqlalchemy import delete, select

from tilewright.errors import InputError
from tilewright.service.jobs.settings import Settings
from tilewright.service.jobs.store import Store
from tilewright.service.jobs.tables import Action, Upload

#: Formats by how a file's contents begin (at an offset); the compiler itself looks closer, in a confined process.
_BEGINNINGS = (
    (0, b"PK\x03\x04", "zip"), (0, b"\x1f\x8b", "tar"), (257, b"ustar", "tar"), (4, b"TFL3", "tflite"),
    (0, b"\x89HDF", "hdf5"), (0, b"\x89TILEWRIGHT", "tilewright"), (0, b"\x08", "onnx"), (0, b"{", "json"),
    (0, b"[", "cfg"),
)  # fmt: skip
_HEAD = 512


class Writing:
    """A file that is being received; `add` raises `InputError` where it becomes longer than `most`."""

    def __init__(self, folder: Path, most: int) -> None:
        self.id = secrets.token_hex(16)
        self.bytes, self.head, self._most, self._digest = 0, b"", most, hashlib.sha256()
        self._final, self._part = folder / self.id, folder / f".{self.id}.part"
        self._file = self._part.open("wb")

    def add(self, part: bytes) -> None:
        """Write more of it."""
        self.bytes += len(part)
        if self.bytes > self._most:
            raise InputError(f"a file has {self._most} bytes at most")
        self.head += part[: max(0, _HEAD - len(self.head))]
        self._digest.update(part)
        self._file.write(part)

    def drop(self) -> None:
        """Remove what was written, unless it was finished."""
        self._file.close()
        self._part.unlink(missing_ok=True)

    def finish(self, store: Store, owner: str, name: str) -> Upload:
        """Keep it under its id; its row."""
        self._file.close()
        self._part.chmod(0o600)
        self._part.replace(self._final)
        row = Upload(
            id=self.id, owner=owner, name=name, bytes=self.bytes, sha256=self._digest.hexdigest(),
            format=_format(self.head), created=time.time(),
        )  # fmt: skip
        with store.session() as session:
            session.add(row)
            session.add(Action(time=row.created, owner=owner, action="upload", subject=row.id))
        return row


def _format(head: bytes) -> str:
    return next((name for at, begin, name in _BEGINNINGS if head[at : at + len(begin)] == begin), "unknown")


def find_upload(store: Store, owner: str, id: str) -> Upload | None:
    """The owner's file with an id."""
    with store.session(reads=True) as session:
        return session.scalar(select(Upload).where(Upload.id == id, Upload.owner == owner))


def list_uploads(store: Store, owner: str, limit: int, after: tuple[float, str] | None = None) -> list[Upload]:
    """The owner's files, the newest first, behind the one of a time and an id."""
    query = select(Upload).where(Upload.owner == owner)
    if after is not None:
        created, last = after
        query = query.where((Upload.created < created) | ((Upload.created == created) & (Upload.id < last)))
    with store.session(reads=True) as session:
        return list(session.scalars(query.order_by(Upload.created.desc(), Upload.id.desc()).limit(limit)))


def delete_upload(store: Store, settings: Settings, owner: str, id: str) -> bool:
    """Delete an owner's file; false where there is none."""
    with store.session() as session:
        found = session.scalar(select(Upload.id).where(Upload.id == id, Upload.owner == owner))
        if found is None:
            return False
        session.execute(delete(Upload).where(Upload.id == found))
        session.add(Action(time=time.time(), owner=owner, action="delete upload", subject=found))
    (settings.uploads_folder / found).unlink(missing_ok=True)
    return True
