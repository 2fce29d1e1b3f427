"""A few jobs while workers and the server are killed (bench/service/kills.py has two hundred)."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("alembic", reason="the extra [serve] is not installed")
pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")
pytest.importorskip("botocore", reason="the extra [serve] is not installed")

from bench.service.kills import run


def _lost(folder: Path, cluster: bool) -> list[str]:
    """The complaints but those of time."""
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)  # where this is root, processes of jobs become nobody, who must get there
    complaints = run(folder / "service", "", 8, seed=1, pause=2, cluster=cluster, seconds=600)
    return [one for one in complaints if not one.startswith("a stop took")]


def test_no_job_is_lost_or_done_twice_when_processes_are_killed(tmp_path: Path) -> None:
    assert _lost(tmp_path, cluster=False) == []


@pytest.mark.long
def test_no_job_is_lost_or_done_twice_on_a_cluster(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra [cluster] is not installed")
    pytest.importorskip("cryptography", reason="the extra [cluster] is not installed")
    assert _lost(tmp_path, cluster=True) == []
