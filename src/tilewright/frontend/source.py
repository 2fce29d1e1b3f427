"""A model as it was given, for telling what format it is of: by what is in it, never by its name."""

from __future__ import annotations

import io
import mmap
import os
import stat
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from tilewright.errors import ModelError
from tilewright.support.dtype import DType

#: The message on pipes and devices.
NO_FILE = "it is a pipe or a device, and models are read from files, in any order; write it to a file first"

#: Entries of a folder, or of an archive, that are looked at: a model says what it is with few.
_MOST_MEMBERS = 10_000


@dataclass(frozen=True)
class Source:
    """`contents` are the bytes of a file, memory-mapped (pages are read when they are used), empty for a folder.

    `label` names the model in messages; `path` is None for one that was given as bytes.
    """

    label: str
    path: Path | None
    contents: memoryview

    @classmethod
    def of(cls, model: str | os.PathLike[str] | bytes | bytearray | memoryview) -> Source:
        """The file or folder at a path, or bytes. Raises `ModelError` where there is nothing to read."""
        if isinstance(model, bytes | bytearray | memoryview):
            return cls("the model given as bytes", None, memoryview(model))
        path = Path(model)
        if path.is_dir():
            return cls(str(path), path, memoryview(b""))
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # which is asked before a pipe is opened, and waited for
                raise ModelError(f"cannot read {path}: {NO_FILE}")
            with path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
        except FileNotFoundError:
            raise ModelError(f"{path}: there is no such file") from None
        except (OSError, ValueError) as error:
            raise ModelError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
        return cls(str(path), path, memoryview(mapped))

    @property
    def is_folder(self) -> bool:
        """True for a model that is a folder of files."""
        return self.path is not None and self.path.is_dir()

    @cached_property
    def members(self) -> frozenset[str]:
        """The names in a folder, or in a zip archive with their paths; none for any other file.

        Nothing is unpacked.
        """
        if self.path is not None and self.is_folder:
            with os.scandir(self.path) as entries:
                return frozenset(entry.name for entry, _ in zip(entries, range(_MOST_MEMBERS)))
        if bytes(self.contents[:4]) != b"PK\x03\x04":
            return frozenset()
        try:
            with zipfile.ZipFile(self.path if self.path is not None else io.BytesIO(self.contents)) as archive:
                return frozenset(archive.namelist()[:_MOST_MEMBERS])
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            return frozenset()


class Cursor:
    """The contents of a file of the kind `what` taken one after another, each length checked before it is followed."""

    def __init__(self, source: Source, what: str) -> None:
        self.label, self.contents, self.position = source.label, source.contents, 0
        self._what = what

    def damaged(self, detail: str) -> ModelError:
        """The error of a file that is not as its kind is."""
        size = len(self.contents)
        return ModelError(f"{self.label} ({size} bytes) is a truncated or damaged {self._what}: {detail}")

    def take(self, count: int) -> memoryview:
        """The next bytes."""
        if not 0 <= count <= len(self.contents) - self.position:
            raise self.damaged(f"{count} bytes are needed at byte {self.position}")
        self.position += count
        return self.contents[self.position - count : self.position]

    def number(self, form: str) -> int:
        """The next number, by its form as `struct` spells it."""
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def array(self, dtype: str, shape: Sequence[int]) -> np.ndarray:
        """The next numbers."""
        kind, count = DType(dtype).numpy, int(np.prod(shape, dtype=object))
        return np.frombuffer(self.take(count * kind.itemsize), kind).reshape(shape)
