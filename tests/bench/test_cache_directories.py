"""Cache directories with other people's files: a few cases; more by `python -m bench.fuzz.cache_directories`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.fuzz import cache_directories as fuzz
from tilewright.support.cache import SUBDIRECTORY, DiskCache

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")


def test_no_foreign_file_is_touched() -> None:
    told: list[str] = []
    assert fuzz.survey(range(8), told.append) == 0, told


def test_a_cache_that_touches_foreign_files_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def clear_all(cache: DiskCache, kind: str | None = None) -> int:
        paths = [path for path in (tmp_path / SUBDIRECTORY).rglob("*") if path.is_file()]
        for path in paths:
            path.unlink(missing_ok=True)
        return len(paths)

    monkeypatch.setattr(DiskCache, "clear", clear_all)
    assert any("is gone" in what for what in fuzz.case(3, tmp_path))
