"""A folder that belongs to one server or tracker at a time: a second one would delete the files of the first.

The lock is the system's (`flock`) on the file `lock` in the folder, so that it ends with the
process, however that ends.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from tilewright.errors import EnvironmentError_, InputError


def hold_folder(folder: Path) -> IO[str]:
    """Make the folder if there is none and lock it: return the open file that holds the lock until it is closed.

    Raises `InputError` where another process (or another server of this one) holds the folder, `EnvironmentError_`
    where it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = open(folder / "lock", "a")  # noqa: SIM115  # held until the caller closes it
    except OSError as error:
        raise EnvironmentError_(f"cannot use the folder {folder}: {error.strerror or error}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        raise InputError(f"the folder {folder} is used by another server or tracker; choose one by --folder") from None
    return handle
