"""Uploads as bench/service/hostile.py makes a thousand of, read as a job's process reads them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the extra [serve] is not installed")

from bench.service.uploads import KINDS
from tests.service.test_forks import TASK
from tilewright.service.jobs import process
from tilewright.service.jobs.forks import Forks

#: Those that take a limit's worth of memory or time.
_HEAVY = {"many messages", "tar of zeros", "tar of many", "zip of zeros", "endless"}


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    made = Forks()
    yield made
    made.close()


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - _HEAVY))
def test_uploads_end_with_a_reason(forks: Forks, tmp_path: Path, kind: str) -> None:
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)  # where this is root, the process becomes nobody, who must get there
    for number in range(8):
        data, framework = KINDS[kind][0](random.Random(f"{kind} {number}"))
        folder = tmp_path / str(number)
        folder.mkdir()
        folder.chmod(0o777)
        (folder / process.MODEL).write_bytes(data)
        (folder / process.JOB).write_text(json.dumps(TASK | {"framework": framework}))
        running = forks.start(folder)
        assert running.wait(120)
        running.end()
        result = json.loads((folder / process.RESULT).read_text())
        assert not result["internal"], (number, result["reason"], (folder / process.LOG).read_text())
        assert result.get("reason", "x"), "a refusal has its reason"
