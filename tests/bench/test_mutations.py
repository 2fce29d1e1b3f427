"""Mutated model files and artifacts: a few of each here, thousands by `python -m bench.fuzz.mutations`."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("resource")

from bench.fuzz import mutations
from bench.fuzz.seeds import seeds
from tilewright.errors import ArtifactError


@pytest.mark.parametrize(("kind", "count"), [("models", 60), ("artifacts", 300), ("fields", 400)])
def test_of_mutated_files_come_models_or_user_errors(kind: str, count: int) -> None:
    counts, findings = mutations.survey(kind, range(count), seconds=60)
    assert not findings
    assert sum(counts.values()) == count and counts["accepted"] and counts["refused"] > counts["accepted"]


def test_cases_are_the_same_in_every_run() -> None:
    originals = [model.SerializeToString(deterministic=True) for model in seeds().values()]
    made = mutations.made_cases("models", range(20), originals)
    assert made == mutations.made_cases("models", range(20), originals)
    assert sum(data != originals[number % len(originals)] for number, data in made) > 15


def fail(data: bytes, folder: Path) -> None:
    match data:
        case b"raw":
            raise IndexError("list index out of range")
        case b"refused":
            raise ArtifactError("no")
        case b"crash":
            os.kill(os.getpid(), signal.SIGKILL)
        case b"slow":
            time.sleep(600)
        case b"large":
            np.ones(1 << 33)


def test_every_kind_of_failure_is_found_and_the_cases_after_it_are_run(tmp_path: Path) -> None:
    words = [b"fine", b"crash", b"raw", b"slow", b"large", b"refused", b"fine"]
    found = mutations.judge(list(enumerate(words)), fail, tmp_path, seconds=6)
    assert [(number, what) for number, what, _ in found] == [
        (0, "accepted"), (1, f"died with status {-signal.SIGKILL}"), (2, "raw IndexError"), (3, "took too long"),
        (4, "raw MemoryError"), (5, "refused"), (6, "accepted"),
    ]  # fmt: skip
    assert "list index out of range" in found[2][2]
