"""The tables of the service's database, for SQLite and PostgreSQL alike. Times are seconds since 1970, in UTC.

A change here needs a step in `migrations`, which tests compare.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Float, Index, Integer, String, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """All tables."""


class Job(Base):
    """A job. Its `status` is one of Amazon's: STARTING, INPROGRESS, STOPPING, or COMPLETED, FAILED, STOPPED."""

    __tablename__ = "jobs"
    __table_args__ = (UniqueConstraint("owner", "name"), Index("jobs_by_status", "status", "created"))

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str] = mapped_column(String(64))
    name: Mapped[str] = mapped_column(String(63))
    status: Mapped[str] = mapped_column(String(16))
    kind: Mapped[str] = mapped_column(String(16), default="compile")
    #: The request as it came, the task that it means (`worker.py`), and what the job found or made.
    request: Mapped[dict[str, Any]] = mapped_column(JSON)
    task: Mapped[dict[str, Any]] = mapped_column(JSON)
    result: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    reason: Mapped[str] = mapped_column(Text, default="")
    created: Mapped[float] = mapped_column(Float)
    modified: Mapped[float] = mapped_column(Float)
    started: Mapped[float | None] = mapped_column(Float, default=None)
    ended: Mapped[float | None] = mapped_column(Float, default=None)
    #: What a running job says: its stage, the share that is done (0 to 1), and the last of its log.
    stage: Mapped[str] = mapped_column(String(32), default="")
    progress: Mapped[float] = mapped_column(Float, default=0.0)
    log: Mapped[str] = mapped_column(Text, default="")
    #: Bytes of the log before that, processor seconds that the job took, and bytes of what is kept of it.
    log_start: Mapped[int] = mapped_column(BigInteger, default=0)
    cpu_seconds: Mapped[float] = mapped_column(Float, default=0.0)
    stored: Mapped[int] = mapped_column(BigInteger, default=0)
    #: The claim of a worker: a text of its own for each claim, the time until which it holds, and how many there were.
    claim: Mapped[str] = mapped_column(String(64), default="")
    lease: Mapped[float] = mapped_column(Float, default=0.0)
    attempts: Mapped[int] = mapped_column(Integer, default=0)


class AccessKey(Base):
    """A key that requests are signed with, and whose jobs they see."""

    __tablename__ = "access_keys"

    id: Mapped[str] = mapped_column(String(128), primary_key=True)
    secret: Mapped[str] = mapped_column(String(128))
    owner: Mapped[str] = mapped_column(String(64))
    created: Mapped[float] = mapped_column(Float)


class BearerKey(Base):
    """A key that our own API takes as it is: of the key, which is random, the digest alone is kept."""

    __tablename__ = "bearer_keys"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    owner: Mapped[str] = mapped_column(String(64))
    created: Mapped[float] = mapped_column(Float)


class Upload(Base):
    """A file that an owner sent: a model, samples for it, or records of a tuner. Its bytes are in the folder."""

    __tablename__ = "uploads"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str] = mapped_column(String(64), index=True)
    name: Mapped[str] = mapped_column(String(255))
    bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64))
    format: Mapped[str] = mapped_column(String(32))
    created: Mapped[float] = mapped_column(Float)


class Usage(Base):
    """The jobs and processor seconds of an owner on a day, counted from 1970 in UTC."""

    __tablename__ = "usage"

    owner: Mapped[str] = mapped_column(String(64), primary_key=True)
    day: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    jobs: Mapped[int] = mapped_column(Integer)
    cpu_seconds: Mapped[float] = mapped_column(Float)


class SeenSignature(Base):
    """A signature that was taken, kept until its date is too old to be taken again."""

    __tablename__ = "seen_signatures"

    signature: Mapped[str] = mapped_column(String(64), primary_key=True)
    until: Mapped[float] = mapped_column(Float, index=True)


class Action(Base):
    """A line of the audit log: who did what to which job."""

    __tablename__ = "actions"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    time: Mapped[float] = mapped_column(Float)
    owner: Mapped[str] = mapped_column(String(64))
    action: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(String(128))
