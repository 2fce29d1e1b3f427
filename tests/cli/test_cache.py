"""`tilewright cache`: lists, bounds and clears what the cache wrote, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tilewright.support.cache import SUBDIRECTORY, DiskCache


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")
    made = DiskCache(tmp_path / "cache")
    for number, (kind, size) in enumerate((("artifact", 3 << 20), ("native", 1 << 20), ("native", 2 << 20))):
        path = made.put(kind, f"{number}" * 40, bytes(size))
        assert path is not None
        os.utime(path, (1000 + number, 1000 + number))
    (tmp_path / "cache" / SUBDIRECTORY / "native" / "notes.txt").write_text("mine")
    return made


def test_what_the_cache_holds(tilewright: Command, store: DiskCache) -> None:
    outcome = tilewright("cache")
    rows = [line.split()[:3] for line in outcome.out.splitlines()]
    assert outcome.status == 0 and rows[1:3] == [["artifact", "1", "3.0"], ["native", "2", "3.0"]]
    assert f"{store.directory}: 3 entries, 6.0 MiB, at most " in outcome.out
    listed = [line.split()[:3] for line in tilewright("cache", "list").out.splitlines()]
    assert listed[1:4] == [["artifact", "0" * 40, "3.0"], ["native", "1" * 40, "1.0"], ["native", "2" * 40, "2.0"]]


def test_a_bound_removes_the_least_recently_used(tilewright: Command, store: DiskCache) -> None:
    outcome = tilewright("cache", "bound", "3500K")
    assert outcome.out == f"1 entries removed; {store.directory}: 2 entries, 3.0 MiB\n"
    assert [entry.key[0] for entry in store.entries()] == ["1", "2"]
    refused = tilewright("cache", "bound", "much")
    assert refused.status == 2 and refused.err.startswith("error: 'much' is no size")


def test_clear_leaves_what_the_cache_did_not_write(tilewright: Command, store: DiskCache) -> None:
    assert tilewright("cache", "clear", "--kind", "native").out.startswith("2 entries removed; ")
    assert tilewright("cache", "clear").out.startswith("1 entries removed; ")
    assert store.directory is not None
    left = [path for path in store.directory.rglob("*") if path.is_file()]
    assert [path.name for path in left] == ["notes.txt"] and left[0].read_text() == "mine"


def test_no_cache_is_said(tilewright: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "0")
    outcome = tilewright("cache", "clear")
    assert outcome.status == 2 and "there is no cache: it is switched off" in outcome.err
