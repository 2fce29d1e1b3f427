"""`tilewright doctor`: what a bug report needs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import tilewright as tw
from tests.cli.conftest import Command
from tilewright.cli import calibrate, doctor
from tilewright.machine import Machine
from tilewright.support import knobs
from tilewright.target import Target


def test_every_fact_is_there(tilewright: Command) -> None:
    outcome = tilewright("doctor")
    assert outcome.status == 0 and outcome.err == ""
    rows = dict(line.split(maxsplit=1) for line in outcome.out.splitlines())
    names = ("tilewright", "python", "system", "target", "vectors", "caches", "threads", "cache", "numpy", "llvmlite",
             "machine", "read_l3", "barrier")  # fmt: skip
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


def test_calibrating_keeps_what_was_measured(
    tilewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_CALIBRATION", "1")
    monkeypatch.delenv("TILEWRIGHT_TARGET", raising=False)
    monkeypatch.setattr(doctor, "measure", _slow_barrier)
    outcome = tilewright("doctor", "--calibrate")
    lines = {line[:24].strip(): line[24:].split() for line in outcome.out.splitlines()}
    known = doctor.shipped(Target.host()).machine
    assert outcome.status == 0
    assert lines["barrier"] == [f"{known.barrier:.4g}", f"{2 * known.barrier:.4g}", "differs"]
    assert lines["shuffle"] == [f"{known.shuffle:.4g}"] * 2
    assert lines["differ"][0] == "1"
    assert lines["kept as"] == [Target.host().measured] != [""]
    assert Target.host().machine.barrier == 2 * known.barrier
    assert "(measured, " in tilewright("doctor").out


def test_a_calibration_that_cannot_be_kept_is_told(tilewright: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "0")
    monkeypatch.setattr(doctor, "measure", _slow_barrier)
    outcome = tilewright("doctor", "--calibrate")
    assert outcome.status == 0 and "not kept" in outcome.out
    assert "(shipped; " in tilewright("doctor").out


def _slow_barrier(known: Machine, each: float = calibrate.EACH) -> Machine:
    return dataclasses.replace(known, barrier=2 * known.barrier)
