"""Files at `s3://` and `file://` names: fetched up to a size, written whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from tilewright.errors import InputError
from tilewright.service.jobs.packages import package
from tilewright.service.jobs.settings import Settings

_CHUNK = 1 << 20
#: The metadata of an object that holds its SHA-256.
_DIGEST = "sha256"


class Locations:
    """Object storage, and the folders that the service shares: models come from there and artifacts go there.

    Object storage is reached as botocore finds its credentials: from the environment, its files, or the machine.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check(self, name: str) -> None:
        """An `InputError` for a name that this service does not read or write."""
        parts = urlsplit(name)
        if parts.scheme == "file":
            self._shared(name)
        elif parts.scheme != "s3" or not parts.netloc:
            raise InputError(f"{name}: models are read from s3:// and file:// names")

    def fetch(self, name: str, target: Path) -> int:
        """Copy what is at `name` to a file; its bytes. Raises `InputError` where it is missing or too large."""
        most, done = self._settings.model_bytes, 0
        with self._source(name) as source, target.open("wb") as copy:
            while part := source.read(_CHUNK):
                done += len(part)
                if done > most:
                    raise InputError(f"{name} is larger than {most} bytes, the most that this service takes")
                copy.write(part)
        return done

    def store(self, source: IO[bytes], name: str, digest: str, token: str) -> None:
        """Write a file to `name`, over what is there, with its SHA-256. Raises `InputError` where that is not allowed.

        A writer that is killed leaves nothing that the next with its `token` does not replace.
        """
        if urlsplit(name).scheme == "file":
            _replace(source, self._shared(name), token)
            return
        with _storage_errors(name):
            bucket, key = _object(name)
            self._storage().put_object(Bucket=bucket, Key=key, Body=source, Metadata={_DIGEST: digest})

    def digest(self, name: str) -> str | None:
        """The SHA-256 of what is at `name`, as 64 hexadecimal digits; None where there is nothing."""
        try:
            if urlsplit(name).scheme == "file":
                with self._source(name) as file:
                    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
            bucket, key = _object(name)
            with _storage_errors(name):
                return self._storage().head_object(Bucket=bucket, Key=key)["Metadata"].get(_DIGEST)
        except InputError:
            return None

    @contextmanager
    def _source(self, name: str) -> Iterator[IO[bytes]]:
        self.check(name)
        if urlsplit(name).scheme == "file":
            try:
                # opening a pipe would wait for a writer
                descriptor = os.open(self._shared(name), os.O_RDONLY | os.O_NONBLOCK)
                with open(descriptor, "rb") as file:
                    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                        raise InputError(f"{name} is no file: pack a folder as a tar archive")
                    yield file
            except OSError as error:
                raise InputError(f"{name} cannot be read: {error.strerror}") from None
            return
        bucket, key = _object(name)
        with _storage_errors(name):
            yield self._storage().get_object(Bucket=bucket, Key=key)["Body"]

    def _storage(self) -> Any:
        """A client of object storage."""
        session = package("botocore.session").get_session()
        endpoint = self._settings.s3_endpoint or None
        return session.create_client("s3", region_name=self._settings.region, endpoint_url=endpoint)

    def _shared(self, name: str) -> Path:
        """The file of a `file://` name, where it lies in a shared folder, links followed."""
        try:
            path = Path(urlsplit(name).path).resolve()
            shared = any(path.is_relative_to(folder.resolve()) for folder in self._settings.shared)
            with suppress(FileNotFoundError, NotADirectoryError):  # `resolve` of Python 3.11 finds no name too long
                if shared:
                    path.lstat()
        except (OSError, RuntimeError, ValueError) as error:  # too long, links in a circle, a zero byte
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{name[:200]} is no file's name: {reason}") from None
        if not shared:
            raise InputError(f"{name[:200]} is in no folder that this service shares")
        return path


def _object(name: str) -> tuple[str, str]:
    """The bucket and the key of an `s3://` name."""
    parts = urlsplit(name)
    return parts.netloc, parts.path.lstrip("/")


@contextmanager
def _storage_errors(name: str) -> Iterator[None]:
    """Errors of the object storage as one of ours."""
    exceptions = package("botocore.exceptions")
    try:
        yield
    except (exceptions.ClientError, exceptions.BotoCoreError) as error:
        raise InputError(f"{name}: {error}") from None


def _replace(source: IO[bytes], final: Path, token: str) -> None:
    """Copy a file over another, of which readers see the old or the new contents."""
    beside = final.with_name(f".{token}.part")
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as copy:
            shutil.copyfileobj(source, copy, _CHUNK)
        beside.replace(final)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InputError(f"{final} cannot be written: {error.strerror}") from None
