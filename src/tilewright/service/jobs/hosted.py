"""Jobs whose model was sent to the service, and whose artifacts it keeps: files into a job's folder, and out of it.

A job's process may have put anything into its folder: its own plain files are taken, and nothing that a link leads to.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.errors import InputError, UserError
from tilewright.service.jobs.settings import Settings
from tilewright.service.jobs.work.job import ARTIFACTS, INPUTS, MODEL

_CHUNK = 1 << 20
#: Files of one job at most.
_MOST_FILES = 1000
_TYPES = {
    ".json": "application/json", ".c": "text/x-c", ".h": "text/x-c", ".txt": "text/plain", ".wasm": "application/wasm",
    ".jsonl": "application/jsonl", ".mjs": "text/javascript", ".html": "text/html",
}  # fmt: skip


def fetch(task: Mapping[str, Any], settings: Settings, folder: Path) -> None:
    """Copy the model, and the files that options name, to a job's folder. Raises `InputError` where one is gone."""
    (folder / INPUTS).mkdir()
    named = {MODEL: task["upload"], **{f"{INPUTS}/{name}": id for name, id in task.get("inputs", {}).items()}}
    for name, id in named.items():
        try:
            shutil.copyfile(settings.uploads_folder / id, folder / name)
        except OSError:
            raise InputError(f"the file {id} was deleted before the job began") from None


def keep(folder: Path, final: Path) -> list[dict[str, Any]]:
    """Copy the artifacts of a job's folder to `final`; what each is: name, bytes, digest, media type.

    Raises `UserError` where one is no plain file.
    """
    made = folder / ARTIFACTS
    if made.is_symlink():
        raise UserError("the job's artifacts are no folder")
    shutil.rmtree(final, ignore_errors=True)  # of an attempt that ended half way
    final.mkdir(parents=True)
    names = sorted(os.listdir(made)) if made.is_dir() else []
    if len(names) > _MOST_FILES:
        raise UserError(f"the job made {len(names)} files, more than {_MOST_FILES}")
    try:
        return [_kept(made / name, final / name) for name in names]
    except OSError as error:
        shutil.rmtree(final, ignore_errors=True)
        raise UserError(f"an artifact cannot be kept: {error.strerror or error}") from None


def _kept(made: Path, target: Path) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    descriptor = os.open(made, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file, target.open("wb") as copy:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
            raise OSError(f"{made.name} is no plain file")
        while part := file.read(_CHUNK):
            digest.update(part)
            size += len(part)
            copy.write(part)
    media_type = _TYPES.get(target.suffix, "application/octet-stream")
    return {"name": target.name, "bytes": size, "sha256": digest.hexdigest(), "media_type": media_type}
