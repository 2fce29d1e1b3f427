"""Environment variables: typed, read when asked for, and errors that name the variable."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tilewright.errors import EnvironmentError_
from tilewright.support import knobs


def test_unset_and_blank_give_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for knob in knobs.all_knobs():
        monkeypatch.delenv(knob.name, raising=False)
        assert knob.get() == knob.default
        monkeypatch.setenv(knob.name, "  ")
        assert knob.get() == knob.default


@pytest.mark.parametrize(
    ("knob", "text", "value"),
    [
        (knobs.NUM_THREADS, " 4 ", 4),
        (knobs.OMP_NUM_THREADS, "4,2,1", 4),
        (knobs.CACHE, "off", False),
        (knobs.CACHE, "Yes", True),
        (knobs.CACHE_SIZE, "512M", 512 << 20),
        (knobs.CACHE_SIZE, "3 GiB", 3 << 30),
        (knobs.CACHE_SIZE, "100", 100),
        (knobs.CACHE_DIR, "/some/where", Path("/some/where")),
    ],
)
def test_values_are_read_by_type(monkeypatch: pytest.MonkeyPatch, knob: knobs.Knob, text: str, value: object) -> None:
    monkeypatch.setenv(knob.name, text)
    assert knob.get() == value


@pytest.mark.parametrize(
    ("knob", "text"),
    [(knobs.NUM_THREADS, "0"), (knobs.NUM_THREADS, "2.5"), (knobs.CACHE, "maybe"), (knobs.CACHE_SIZE, "-3M")],
)
def test_unreadable_values_name_the_variable(monkeypatch: pytest.MonkeyPatch, knob: knobs.Knob, text: str) -> None:
    monkeypatch.setenv(knob.name, text)
    with pytest.raises(EnvironmentError_, match=f"{knob.name}={re.escape(repr(text))} is not valid: expected"):
        knob.get()


def test_home_directories_are_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "~/tw")
    assert knobs.CACHE_DIR.get() == Path(os.path.expanduser("~")) / "tw"


def test_no_other_file_reads_the_environment_for_settings() -> None:
    package = Path(knobs.__file__).parent.parent
    readers = [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"environ(\.get)?[\[(]\s*[\"'](TILEWRIGHT|OMP)_", path.read_text())
    ]
    assert readers == []
