"""Jobs in the database: made, claimed by one worker at a time, kept alive by leases, stopped, and ended once.

A claim has a text of its own, and everything that a worker writes is conditional on it: a worker that was taken for
dead, and comes back, can change nothing. All changes are single conditional updates, so that neither SQLite nor
PostgreSQL needs locks held between statements. Before an artifact is written, what it will be is recorded: who claims
the job after a worker that died in between finds it, and has nothing to do twice.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import ColumnElement, CursorResult, Executable, and_, case, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tilewright.service.jobs.database import READS, open_database
from tilewright.service.jobs.tables import AccessKey, Action, BearerKey, Job, SeenSignature

STARTING, INPROGRESS, STOPPING = "STARTING", "INPROGRESS", "STOPPING"
COMPLETED, FAILED, STOPPED = "COMPLETED", "FAILED", "STOPPED"
ENDED = frozenset({COMPLETED, FAILED, STOPPED})
#: Jobs that a worker looks at for one to claim.
_CANDIDATES = 64
#: A worker sees within a second that its job is to stop; one that did not for so many is taken for dead.
_STOP_SECONDS = 1.5


class NameTaken(Exception):
    """The owner has a job of this name."""


class TooManyJobs(Exception):
    """The owner has as many jobs waiting and running as are allowed."""


@dataclass(frozen=True)
class Claimed:
    """A job that is this worker's for as long as its lease is renewed."""

    id: str
    owner: str
    name: str
    claim: str
    task: Mapping[str, Any]
    attempts: int
    kind: str = "compile"
    #: What an earlier worker recorded before it wrote the artifact.
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """The part of a list of jobs that is wanted: conditions, order, and where it begins."""

    conditions: tuple[ColumnElement[bool], ...] = ()
    order: str = "created"
    descending: bool = True
    limit: int = 100
    #: The order's value and the id of the job before the first.
    after: tuple[Any, str] | None = None


class Store:
    """The jobs and keys of one database; methods may be called from several threads."""

    def __init__(self, url: str) -> None:
        self.engine = open_database(url)
        self._readers = self.engine.execution_options(**{READS: True})
        #: Set when a job was made by this process, whose idle workers wait for it.
        self.made = threading.Event()

    def session(self, reads: bool = False) -> AbstractContextManager[Session]:
        """A transaction; one that only `reads` keeps nobody from writing."""
        return self._session(reads)

    @contextmanager
    def _session(self, reads: bool = False) -> Iterator[Session]:
        engine = self._readers if reads else self.engine
        with Session(engine, expire_on_commit=False) as session, session.begin():
            yield session

    # ------------------------------------------------------------------------------------------ what owners do
    def create(
        self,
        owner: str,
        name: str,
        request: Mapping[str, Any],
        task: Mapping[str, Any],
        most: int,
        kind: str = "compile",
        admit: Callable[[Session], None] = lambda session: None,
        **columns: Any,
    ) -> Job:
        """A new job that waits for a worker. Raises `NameTaken` or `TooManyJobs`, or what `admit` does.

        `admit` looks at the owner's quotas in the same transaction; `columns` are others than Amazon's API has.
        """
        now = time.time()
        columns = {"id": secrets.token_hex(16), **columns}
        job = Job(
            owner=owner, name=name, status=STARTING, kind=kind, request=dict(request), task=dict(task), created=now,
            modified=now, **columns,
        )  # fmt: skip
        unended = select(func.count()).where(Job.owner == owner, Job.status.not_in(ENDED))
        try:
            with self._session() as session:
                if self.engine.dialect.name == "postgresql":  # where others may count at the same time
                    session.execute(select(func.pg_advisory_xact_lock(func.hashtext(owner))))
                if session.scalar(select(Job.id).where(Job.owner == owner, Job.name == name)):
                    raise NameTaken(name)
                if (session.scalar(unended) or 0) >= most:
                    raise TooManyJobs(f"{most} jobs wait or run")
                admit(session)
                session.add(job)
                session.add(_action(owner, "create", name))
        except IntegrityError:  # another process was quicker
            raise NameTaken(name) from None
        self.made.set()
        return job

    def find(self, owner: str, name: str) -> Job | None:
        """The owner's job of this name."""
        wanted = select(Job).where(Job.owner == owner, Job.name == name)
        with self._session(reads=True) as session:
            job = session.scalar(wanted)
        if job is None or job.status != STOPPING or job.lease >= time.time():
            return job
        self._end_abandoned()
        with self._session(reads=True) as session:
            return session.scalar(wanted)

    def unended(self, job_id: str) -> str | None:
        """The claim of a job that has not ended; None where it has, or there is none."""
        with self._session(reads=True) as session:
            return session.scalar(select(Job.claim).where(Job.id == job_id, Job.status.not_in(ENDED)))

    def page(self, owner: str, wanted: Page) -> list[Job]:
        """The owner's jobs, a page of them; ties of the order go by id."""
        column = getattr(Job, wanted.order)
        query = select(Job).where(Job.owner == owner, *wanted.conditions)
        if wanted.after is not None:
            value, last = wanted.after
            beyond = column < value if wanted.descending else column > value
            after_id = Job.id < last if wanted.descending else Job.id > last
            query = query.where(or_(beyond, and_(column == value, after_id)))
        ordered = (column.desc(), Job.id.desc()) if wanted.descending else (column.asc(), Job.id.asc())
        with self._session(reads=True) as session:
            return list(session.scalars(query.order_by(*ordered).limit(wanted.limit)))

    def stop(self, owner: str, name: str) -> bool:
        """Have a job stopped, at once where no worker has it; false where there is none. An ended one stays."""
        now = time.time()
        of_it = and_(Job.owner == owner, Job.name == name)
        with self._session() as session:
            waiting = update(Job).where(of_it, Job.status == STARTING)
            session.execute(waiting.values(status=STOPPED, modified=now, ended=now))
            soon = case((Job.lease < now + _STOP_SECONDS, Job.lease), else_=now + _STOP_SECONDS)
            running = update(Job).where(of_it, Job.status == INPROGRESS)
            session.execute(running.values(status=STOPPING, modified=now, lease=soon))
            session.add(_action(owner, "stop", name))
            return session.scalar(select(Job.id).where(of_it)) is not None

    def delete(self, owner: str, name: str) -> bool | None:
        """Forget a job that has ended: true. False while it has not, None where there is none."""
        with self._session() as session:
            of_it = and_(Job.owner == owner, Job.name == name)
            gone = _changed(session, delete(Job).where(of_it, Job.status.in_(ENDED)))
            session.add(_action(owner, "delete", name))
            if gone:
                return True
            return False if session.scalar(select(Job.id).where(of_it)) else None

    # ------------------------------------------------------------------------------------------ what workers do
    def waiting(self) -> int:
        """The number of jobs that a worker could take, or end because theirs died; it changes and locks nothing."""
        now = time.time()
        work = or_(Job.status == STARTING, and_(Job.status.in_((INPROGRESS, STOPPING)), Job.lease < now))
        with self._session(reads=True) as session:
            return session.scalar(select(func.count()).select_from(Job).where(work)) or 0

    def claim(self, lease_seconds: float, attempts: int, most_of_owner: int = 0) -> Claimed | None:
        """A job that waits, or whose worker died, for this worker; None where there is none.

        Owners with fewer jobs running come first, then the job that waits longest. One whose workers died `attempts`
        times fails. An owner with `most_of_owner` jobs running waits, unless that is 0.
        """
        if not self.waiting():
            return None
        self._end_abandoned(attempts)
        now = time.time()
        running = (
            select(Job.owner, func.count().label("running"))
            .where(Job.status == INPROGRESS, Job.lease >= now)
            .group_by(Job.owner)
            .subquery()
        )
        of_owner = func.coalesce(running.c.running, 0)
        claimable = or_(Job.status == STARTING, and_(Job.status == INPROGRESS, Job.lease < now))
        waiting = select(Job).outerjoin(running, running.c.owner == Job.owner).where(claimable)
        if most_of_owner:
            waiting = waiting.where(of_owner < most_of_owner)
        with self._session() as session:
            for job in session.scalars(waiting.order_by(of_owner, Job.created).limit(_CANDIDATES)).all():
                claim, attempt = secrets.token_hex(16), job.attempts + 1
                unchanged = and_(Job.id == job.id, Job.status == job.status, Job.claim == job.claim)
                values = {"status": INPROGRESS, "claim": claim, "lease": now + lease_seconds, "modified": now,
                          "attempts": attempt, "started": job.started or now}  # fmt: skip
                if _changed(session, update(Job).where(unchanged, claimable).values(values)):
                    return Claimed(job.id, job.owner, job.name, claim, job.task, attempt, job.kind, job.result)
        return None

    def _end_abandoned(self, attempts: int = 0) -> None:
        """End what no worker will: jobs to be stopped whose worker died, and those that kill their workers."""
        now = time.time()
        with self._session() as session:
            stopping = update(Job).where(Job.status == STOPPING, Job.lease < now)
            session.execute(stopping.values(status=STOPPED, modified=now, ended=now))
            if attempts:
                deadly = update(Job).where(Job.status == INPROGRESS, Job.lease < now, Job.attempts >= attempts)
                reason = f"{attempts} workers ended while they ran this job"
                session.execute(deadly.values(status=FAILED, reason=reason, modified=now, ended=now))

    def renew(self, job: Claimed, lease_seconds: float, reported: Mapping[str, Any] | None = None) -> str:
        """Renew a claim; the job's status, or "" where it is this worker's no more.

        `reported` are new values of `stage`, `progress` and `log`.
        """
        ours = and_(Job.id == job.id, Job.claim == job.claim)
        values = {**(reported or {}), "lease": time.time() + lease_seconds}
        with self._session() as session:
            if _changed(session, update(Job).where(ours, Job.status == INPROGRESS).values(values)):
                return INPROGRESS
            return session.scalar(select(Job.status).where(ours)) or ""

    def record(self, job: Claimed, lease_seconds: float, result: Mapping[str, Any]) -> bool:
        """Record the artifact that is about to be written; false where the job is to stop or another worker's."""
        return self.renew(job, lease_seconds, {"result": dict(result)}) == INPROGRESS

    def release(self, job: Claimed) -> None:
        """Let another worker have a job; one that shall stop has stopped."""
        ours, now = and_(Job.id == job.id, Job.claim == job.claim), time.time()
        with self._session() as session:
            free = {"status": STARTING, "claim": "", "attempts": job.attempts - 1, "modified": now}
            session.execute(update(Job).where(ours, Job.status == INPROGRESS).values(free))
            stopped = update(Job).where(ours, Job.status == STOPPING)
            session.execute(stopped.values(status=STOPPED, modified=now, ended=now))
        self.made.set()

    def end(self, job: Claimed, status: str, reason: str = "", result: Mapping[str, Any] | None = None) -> bool:
        """End a job; false where it is this worker's no more. One that shall stop has stopped, whatever it did."""
        now = time.time()
        with self._session() as session:
            ours = and_(Job.id == job.id, Job.claim == job.claim)
            values: dict[str, Any] = {"status": status, "reason": reason, "modified": now, "ended": now}
            if result is not None:
                values["result"] = dict(result)
            done = _changed(session, update(Job).where(ours, Job.status == INPROGRESS).values(values))
            stopped = update(Job).where(ours, Job.status == STOPPING).values(status=STOPPED, modified=now, ended=now)
            return bool(done or _changed(session, stopped))

    # ------------------------------------------------------------------------------------------ keys
    def add_key(self, owner: str) -> tuple[str, str]:
        """A new key of an owner, and its secret."""
        key, secret = "TW" + secrets.token_hex(9).upper(), secrets.token_urlsafe(30)
        with self._session() as session:
            session.add(AccessKey(id=key, secret=secret, owner=owner, created=time.time()))
            session.add(_action(owner, "add key", key))
        return key, secret

    def add_bearer_key(self, owner: str) -> str:
        """A new key of an owner for our own API."""
        key = "tw_" + secrets.token_urlsafe(30)
        with self._session() as session:
            session.add(BearerKey(digest=_digest(key), owner=owner, created=time.time()))
            session.add(_action(owner, "add key", key[:7]))
        return key

    def bearer(self, key: str) -> str | None:
        """The owner of a key of our own API."""
        with self._session(reads=True) as session:
            return session.scalar(select(BearerKey.owner).where(BearerKey.digest == _digest(key)))

    def key(self, key: str) -> AccessKey | None:
        """A key with its secret and owner."""
        with self._session(reads=True) as session:
            return session.get(AccessKey, key)

    def first_time(self, signature: str, until: float) -> bool:
        """Record a signature; false where it is recorded already."""
        try:
            with self._session() as session:
                session.execute(delete(SeenSignature).where(SeenSignature.until < time.time()))
                session.add(SeenSignature(signature=signature, until=until))
        except IntegrityError:
            return False
        return True


def _changed(session: Session, statement: Executable) -> int:
    """Run an update or a deletion; the rows that it changed."""
    return cast(CursorResult[Any], session.execute(statement)).rowcount


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _action(owner: str, action: str, subject: str) -> Action:
    return Action(time=time.time(), owner=owner, action=action, subject=subject)
