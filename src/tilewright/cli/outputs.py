"""Files a verb writes: checked before the work begins, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from tilewright.errors import EnvironmentError_
from tilewright.support.cache import atomic_file, descriptor_of


def check_writable(path: str, *inputs: str) -> None:
    """Raise EnvironmentError_ when no file can be made at `path`, or when that would replace one of `inputs`.

    Asked before the work starts, so that nobody waits for a result that cannot be stored.
    """
    target = Path(path)
    if target.is_dir():
        raise EnvironmentError_(f"cannot write {path}: it is a directory; name a file in it")
    if path.endswith(os.sep):
        raise EnvironmentError_(f"cannot write {path}: it names a directory, which is not there; name a file")
    descriptor = descriptor_of(target)
    if descriptor is not None:
        try:
            os.fstat(descriptor)
        except OSError as error:
            raise EnvironmentError_(f"cannot write {path}: {error.strerror}") from None
        return
    if target.exists() and not target.is_file():  # a device or a pipe, which is written into
        if not os.access(target, os.W_OK):
            raise EnvironmentError_(f"cannot write {path}: permission denied")
        return
    target = Path(os.path.realpath(target))  # what a link leads to is replaced, and the link stays
    try:
        handle, probe = tempfile.mkstemp(prefix=".writable.", dir=target.parent)
        os.close(handle)
        os.unlink(probe)
    except OSError as error:
        raise EnvironmentError_(f"cannot write {path}: {error.strerror or error} ({target.parent})") from None
    if any(target.exists() and Path(other).exists() and target.samefile(other) for other in inputs):
        raise EnvironmentError_(f"cannot write {path}: it is the model that is being read; choose another name")


def write_file(path: str, write: Callable[[Path], object]) -> None:
    """Put at `path` what `write` puts at the temporary path it is given. Raises EnvironmentError_."""
    try:
        with atomic_file(Path(path)) as temporary:
            write(temporary)
    except OSError as error:
        raise EnvironmentError_(f"cannot write {path}: {error.strerror or error}") from None
