"""`tilewright doctor`: what a bug report needs."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilewright as tw
from tests.cli.conftest import Command
from tilewright.support import knobs


def test_every_fact_is_there(tilewright: Command) -> None:
    outcome = tilewright("doctor")
    assert outcome.status == 0 and outcome.err == ""
    rows = dict(line.split(maxsplit=1) for line in outcome.out.splitlines())
    names = ("tilewright", "python", "system", "target", "vectors", "caches", "threads", "cache", "numpy", "llvmlite")
    assert {*names, *(knob.name for knob in knobs.all_knobs())} <= {*rows}


def test_an_unwritable_cache_is_told_not_raised(
    tilewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    outcome = tilewright("doctor")
    assert outcome.status == 0 and "cache is not writable: Not a directory" in outcome.out


def test_the_public_names_exist() -> None:
    assert all(getattr(tw, name) is not None for name in dir(tw))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = tw.nonsense
