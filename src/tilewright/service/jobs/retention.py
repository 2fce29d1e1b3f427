"""Removal of what is old: uploads, jobs that have ended, their artifacts, and files that belong to no row."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from sqlalchemy import delete, select

from tilewright.service.jobs.settings import Settings
from tilewright.service.jobs.store import ENDED, Store
from tilewright.service.jobs.tables import Job, Upload, Usage

_DAY = 86400.0
#: Days for which the use of quotas is kept.
_USAGE = 60


def remove_old(store: Store, settings: Settings) -> int:
    """Remove what is older than the settings have it; the number of uploads and jobs that are gone."""
    before = time.time() - settings.keep_days * _DAY
    gone = 0
    with store.session() as session:
        session.execute(delete(Usage).where(Usage.day < int(time.time() / _DAY) - _USAGE))
        if settings.keep_days:
            waiting = session.scalars(select(Job.task).where(Job.status.not_in(ENDED)))
            needed = {id for task in waiting for id in (task.get("upload"), *task.get("inputs", {}).values())}
            old = [id for id in session.scalars(select(Upload.id).where(Upload.created < before)) if id not in needed]
            ended = [*session.scalars(select(Job.id).where(Job.status.in_(ENDED), Job.ended < before))]
            for id in old:
                session.execute(delete(Upload).where(Upload.id == id))
            for id in ended:
                session.execute(delete(Job).where(Job.id == id))
            gone = len(old) + len(ended)
        uploads, jobs = set(session.scalars(select(Upload.id))), set(session.scalars(select(Job.id)))
    _remove_others(settings.uploads_folder, uploads)
    _remove_others(settings.artifacts_folder, jobs)
    return gone


def _remove_others(folder: Path, known: set[str]) -> None:
    """Remove what belongs to no row, unless it is so new that its row may not be there yet."""
    for path in folder.iterdir():
        try:
            if path.name not in known and path.stat().st_mtime < time.time() - _DAY:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        except OSError:  # another process was quicker
            continue
