"""Processes of jobs: forked, confined, ended with their worker, and never without an answer."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.test_neo import _model

pytest.importorskip("sqlalchemy", reason="the extra [serve] is not installed")

from tilewright.service.jobs import process
from tilewright.service.jobs.forks import Forks

TASK = {
    "kind": "compile",
    "framework": "ONNX",
    "target": "llvm",
    "precision": "float32",
    "shapes": None,
    "model_bytes": 1 << 20,
    "limits": {"memory_bytes": 8 << 30},
}


@pytest.fixture
def forks() -> Iterator[Forks]:
    made = Forks()
    yield made
    made.close()


def _result(forks: Forks, folder: Path) -> dict[str, Any]:
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    (folder / process.JOB).write_text(json.dumps(TASK))
    _model(folder / process.MODEL)
    running = forks.start(folder)
    assert running.wait(120)
    running.end()
    found: dict[str, Any] = json.loads((folder / process.RESULT).read_text())
    return found


def test_processes_that_confine_themselves(forks: Forks, tmp_path: Path) -> None:
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)  # where this is root, the process becomes nobody, who must get there
    first = _result(forks, tmp_path / "first")
    assert (
        first["inputs"] == {"x": [2, 4]} and first["measures"]["calls"] == "on" and first["measures"]["limits"] == "on"
    )
    server = forks._server
    assert _result(forks, tmp_path / "second")["inputs"] and forks._server is server
    assert server is not None
    server.kill()
    server.wait()
    assert _result(forks, tmp_path / "third")["inputs"] and forks._server is not server


def test_a_process_ends_with_the_server(forks: Forks, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / process.JOB)  # the process waits for it
    running = forks.start(tmp_path)
    assert not running.wait(0.2)
    forks.close()
    assert running.wait(10)
    running.end()


def test_a_process_that_is_ended(forks: Forks, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / process.JOB)
    running = forks.start(tmp_path)
    assert os.getpriority(os.PRIO_PROCESS, running.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    os.kill(running.pid, signal.SIGSTOP)
    running.end()
    assert forks._server is not None and forks._server.poll() is None


def test_a_fault_before_the_job_is_read_is_in_its_log(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / process.JOB).write_text("{")
    running = forks.start(tmp_path)
    assert running.wait(60)
    running.end()
    assert "JSONDecodeError" in (tmp_path / "log.txt").read_text()
    assert not (tmp_path / process.RESULT).exists()
