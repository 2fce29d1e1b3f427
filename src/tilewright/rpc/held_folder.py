"""A folder that belongs to one server or tracker at a time: a second one would delete the files of the first.

The lock is the system's (`flock`) on the file `lock` in the folder, so that it ends with the
process, however that ends.
"""

from __future__ import annotations

import fcntl
from pathlib import Path

from tilewright.errors import EnvironmentError_, InputError


class HeldFolder:
    """A folder, made if there is none and locked until `close`.

    Raises `InputError` where another process (or another server of this one) holds the folder, `EnvironmentError_`
    where it cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = open(folder / "lock", "a")  # noqa: SIM115  # held until `close`
        except OSError as error:
            raise EnvironmentError_(f"cannot use the folder {folder}: {error.strerror or error}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise InputError(
                f"the folder {folder} is used by another server or tracker; choose one by --folder"
            ) from None

    def close(self) -> None:
        """Release the folder, also where a process that is just being started still shares the open file."""
        if not self._file.closed:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._file.close()
