"""Settings of a service: folders, database, limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: Bytes of a mebibyte, in which limits of memory are thought of.
_MIB = 2**20


@dataclass(frozen=True)
class Settings:
    """The settings of one service; times in seconds, sizes in bytes.

    `shared` are the folders that `file://` names may be under: none, unless the owner of the machine says so.
    """

    folder: Path
    database: str = ""
    shared: tuple[Path, ...] = ()
    #: Where `s3://` is; Amazon's own where empty.
    s3_endpoint: str = ""
    region: str = "us-east-1"
    #: Account numbers have twelve digits in names of Amazon's resources.
    account: str = "000000000000"
    workers: int = 1
    #: Jobs of one owner that wait or run.
    jobs_of_owner: int = 100
    job_memory: int = 8192 * _MIB
    #: The most that a job may run for, and what it does where its request has no limit.
    job_seconds: float = 3600.0
    #: The most bytes of a model, packed and unpacked.
    model_bytes: int = 2048 * _MIB
    #: A worker that has not reported for so long is taken for dead.
    lease_seconds: float = 10.0
    #: Times that a job is begun at most, where workers die of it. Workers die of other things too, so not few.
    attempts: int = 5
    #: Jobs of one owner that run at a time, so that one whose jobs are long leaves workers to others; 0: no limit.
    running_of_owner: int = 0
    #: Of one owner: jobs and seconds of processors in a day (of UTC), bytes of models and artifacts; 0: no limit.
    jobs_a_day: int = 0
    cpu_seconds_a_day: float = 0.0
    stored_bytes: int = 0
    #: Days for which models, jobs that have ended and their artifacts are kept; 0: for ever.
    keep_days: float = 30.0
    #: Seconds that a running job has to end when the service does, before another worker may have it.
    grace_seconds: float = 20.0
    request_bytes: int = 1 * _MIB
    #: The tracker of a fleet whose devices jobs may name, the folder of our certificate in it, and the seconds that a
    #: job waits for a free one.
    tracker: tuple[str, int] | None = None
    bundle: Path | None = None
    device_seconds: float = 120.0
    #: Whether requests of our own API need no key, where they come from this machine.
    open: bool = False
    #: Minutes between our clock and a request's are 15, as Amazon has it.
    clock_skew: float = 900.0

    @property
    def database_url(self) -> str:
        """The database, as SQLAlchemy names it: a file in the folder by default."""
        return self.database or f"sqlite:///{self.folder.resolve() / 'service.db'}"

    @property
    def jobs_folder(self) -> Path:
        """The folder in which each running job has one of its own."""
        return self.folder / "jobs"

    @property
    def uploads_folder(self) -> Path:
        """The folder of files that owners sent, by id."""
        return self.folder / "uploads"

    @property
    def artifacts_folder(self) -> Path:
        """The folder of what jobs made, a folder each by id."""
        return self.folder / "artifacts"

    def prepare(self) -> None:
        """Make the folders: others pass through to those of jobs, and see nothing else."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o711)
        self.jobs_folder.mkdir(exist_ok=True)
        self.jobs_folder.chmod(0o711)
        for folder in (self.uploads_folder, self.artifacts_folder):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o700)
