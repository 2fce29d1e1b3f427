"""Other programs' load: this process's own work is none of it, and a system that tells nothing is no error."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tilewright.support import load
from tilewright.support.load import Load, other_load


def test_a_busy_process_beside_us_is_seen() -> None:
    if not Path("/proc/stat").exists():
        pytest.skip("this system has no /proc/stat")
    spin = "import time; end = time.monotonic() + 30\nwhile time.monotonic() < end: pass"
    busy = subprocess.Popen([sys.executable, "-c", spin])
    try:
        with other_load() as seen:
            time.sleep(1.5)
    finally:
        busy.kill()
        busy.wait()
    assert seen.cores is not None and seen.cores > 0.1


def test_a_system_that_does_not_tell_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(load, "_STAT", tmp_path / "none")
    with other_load() as seen:
        pass
    assert seen.cores is None and seen.note == ""


def test_only_a_busy_machine_is_worth_a_sentence() -> None:
    assert Load(0.05).note == "" and "1.5 of its" in Load(1.5).note
