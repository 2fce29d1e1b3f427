"""A job as its process sees it: the task, the model, files to hand over, and what it says of its progress."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.service.jobs.work.unpack import model_in
from tilewright.support import trace

#: Files and folders of a job's folder.
JOB, MODEL, STAGE, RESULT, LOG, ARTIFACT, ARTIFACTS, INPUTS = (
    "job.json", "model", "stage", "result.json", "log.txt", "artifact.tar.gz", "artifacts", "inputs"
)  # fmt: skip
#: Seconds between two writes of the progress of one stage.
_BETWEEN = 0.25


@dataclass
class Job:
    """The job of a folder: `task` is what `job.json` has, `model` the path of the unpacked model."""

    folder: Path
    task: Mapping[str, Any]
    #: The session with the device that it was lent (`fleet.py`).
    device: Any = None
    _last: tuple[str, float] = field(default=("", 0.0))

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the request."""
        found: Mapping[str, Any] = self.task.get("options", {})
        return found

    def model(self) -> Path:
        """The model's file or folder, unpacked where it is an archive. Raises `InputError`."""
        self.stage("unpack")
        unpacked = self.folder / "unpacked"
        unpacked.mkdir()
        return model_in(self.folder / MODEL, self.task["framework"], unpacked, self.task["model_bytes"])

    def input(self, name: str) -> Path:
        """The file of an option that names an upload."""
        return self.folder / INPUTS / name

    def artifact(self, name: str) -> Path:
        """The path of a file that the job's owner gets."""
        (self.folder / ARTIFACTS).mkdir(exist_ok=True)
        return self.folder / ARTIFACTS / name

    def stage(self, name: str, done: int = 0, total: int = 0) -> None:
        """Say that the job is in a stage, of whose `total` pieces `done` are done."""
        now = time.monotonic()
        if name == self._last[0] and now - self._last[1] < _BETWEEN and done != total:
            return
        self._last = name, now
        beside = self.folder / f".{STAGE}"
        beside.write_text(f"{name[:32]} {done / total if total else 0.0:.4f}")
        beside.replace(self.folder / STAGE)

    def reason(self, error: Exception) -> str:
        """The text of an error, in which files are named as the job's owner knows them: without the job's folder."""
        return str(error).replace(f"{self.folder}/", "")

    @contextmanager
    def watched(self, stage: str) -> Iterator[None]:
        """Say what the compiler counts in the enclosed code."""
        self.stage(stage)
        with trace.listen(self.stage):
            yield
