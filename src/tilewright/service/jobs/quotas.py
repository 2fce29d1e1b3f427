"""Quotas of owners: jobs and processor seconds in a day of UTC, and bytes that are kept."""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tilewright.service.jobs.settings import Settings
from tilewright.service.jobs.store import Store
from tilewright.service.jobs.tables import Job, Upload, Usage

_DAY = 86400
#: Seconds after which to come again where only deleting helps.
_LATER = 3600


class QuotaExceeded(Exception):
    """A quota of an owner is used up; `seconds` until it may not be."""

    def __init__(self, text: str, seconds: int) -> None:
        super().__init__(text)
        self.seconds = seconds


def admission(settings: Settings, owner: str) -> Callable[[Session], None]:
    """A check for `Store.create` that counts one more job of an owner, or raises `QuotaExceeded`."""

    def admit(session: Session) -> None:
        today = _used(session, owner)
        left = _DAY - int(time.time()) % _DAY
        if settings.jobs_a_day and today.jobs >= settings.jobs_a_day:
            raise QuotaExceeded(f"{settings.jobs_a_day} jobs a day, which are made", left)
        if settings.cpu_seconds_a_day and today.cpu_seconds >= settings.cpu_seconds_a_day:
            raise QuotaExceeded(f"{settings.cpu_seconds_a_day:g} s of processors a day, which are used", left)
        _check_stored(session, settings, owner, 0)
        _add(session, owner, 1, 0.0)

    return admit


def check_stored(store: Store, settings: Settings, owner: str, more: int) -> None:
    """Raise `QuotaExceeded` where `more` bytes are more than an owner may have kept."""
    with store.session(reads=True) as session:
        _check_stored(session, settings, owner, more)


def charge(store: Store, owner: str, cpu_seconds: float) -> None:
    """Count processor seconds that a job of an owner took."""
    try:
        with store.session() as session:
            _add(session, owner, 0, cpu_seconds)
    except IntegrityError:  # another process was quicker to make the row
        with store.session() as session:
            _add(session, owner, 0, cpu_seconds)


def _check_stored(session: Session, settings: Settings, owner: str, more: int) -> None:
    if not settings.stored_bytes:
        return
    sums = (
        select(func.sum(Upload.bytes)).where(Upload.owner == owner),
        select(func.sum(Job.stored)).where(Job.owner == owner),
    )
    kept = sum(int(session.scalar(one) or 0) for one in sums)
    if kept + more > settings.stored_bytes:
        text = f"{settings.stored_bytes} bytes of models and artifacts, of which {kept} are kept; delete some"
        raise QuotaExceeded(text, _LATER)


def _used(session: Session, owner: str) -> Usage:
    found = session.get(Usage, (owner, _today()))
    return found or Usage(owner=owner, day=_today(), jobs=0, cpu_seconds=0.0)


def _add(session: Session, owner: str, jobs: int, cpu_seconds: float) -> None:
    ours = (Usage.owner == owner, Usage.day == _today())
    more = {"jobs": Usage.jobs + jobs, "cpu_seconds": Usage.cpu_seconds + cpu_seconds}
    if session.get(Usage, (owner, _today())) is None:
        session.add(Usage(owner=owner, day=_today(), jobs=jobs, cpu_seconds=cpu_seconds))
    else:
        session.execute(update(Usage).where(*ours).values(more))


def _today() -> int:
    return int(time.time()) // _DAY
