"""Files of records: one entry a line, only ever appended to, so that a program killed at any moment loses nothing.

    with RecordFile("resnet18.jsonl") as file:
        file.entries                     # what stands in it already
        file.append(entry)               # one write of one line; several programs may append to one file

A last line without its end is what a killed program was writing: it is dropped, by the next that appends. Any other
line that does not read back is an `ArtifactError` with its number.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tilewright.errors import ArtifactError, EnvironmentError_
from tilewright.records.entry import Entry
from tilewright.support.cache import atomic_file


def read_records(path: str | os.PathLike[str]) -> list[Entry]:
    """The entries of a file in order. Raises `ArtifactError` with the line for a damaged file, or another one."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise ArtifactError(f"{path}: there is no such file of records; `tilewright tune` writes one") from None
    except OSError as error:
        raise EnvironmentError_(f"{path}: {error.strerror}") from None
    return list(_entries(data, Path(path)))


def _entries(data: bytes, path: Path) -> Iterator[Entry]:
    whole, _, _ = data.rpartition(b"\n")
    for number, line in enumerate(whole.split(b"\n"), 1):
        text = line.decode(errors="replace")
        if not text.strip() or text.startswith("#"):
            continue
        try:
            yield Entry.from_line(text)
        except (ArtifactError, KeyError, TypeError, ValueError) as error:
            why = error if isinstance(error, ArtifactError) else f"lacks what every record has ({error!r})"
            raise ArtifactError(f"{path}, line {number} {why}. Remove that line, or take an older copy") from None


def write_records(path: str | os.PathLike[str], entries: Iterable[Entry]) -> None:
    """Write a file of these entries atomically."""
    with atomic_file(Path(path)) as temporary:
        temporary.write_text("".join(f"{entry.to_line()}\n" for entry in entries), encoding="utf-8")


def merge_records(paths: Iterable[str | os.PathLike[str]]) -> list[Entry]:
    """The entries of several files without duplicates, in the order of their times."""
    found = dict.fromkeys(entry.to_line() for path in paths for entry in read_records(path))
    return sorted(map(Entry.from_line, found), key=lambda entry: entry.time)


class RecordFile:
    """A file of records opened for appending, created if missing."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise EnvironmentError_(f"{path}: records cannot be written there: {error.strerror}") from None
        try:
            self.entries: list[Entry] = self._read()
        except BaseException:
            os.close(self._handle)
            raise

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def append(self, entry: Entry) -> None:
        """Add an entry at the end, in one write."""
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        try:
            os.write(self._handle, f"{entry.to_line()}\n".encode())
        except OSError as error:
            raise EnvironmentError_(f"{self.path}: a record cannot be written: {error.strerror}") from None
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)
        self.entries.append(entry)

    def _read(self) -> list[Entry]:
        """The entries of the file, its last line ended."""
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        try:
            data = self.path.read_bytes()
            os.ftruncate(self._handle, len(data) - len(data.rpartition(b"\n")[2]))
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)
        return list(_entries(data, self.path))
