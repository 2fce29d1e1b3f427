"""`bench/replay_loops.py`: two folders of one compiler are equal, and a function that differs is named."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")


def test_a_replay_names_the_functions_that_differ(bench_folder: Path, tmp_path: Path) -> None:
    networks = importlib.import_module("networks")
    if not networks.MODELS.exists():
        pytest.skip(f"the models are not beside this repository: {networks.MODELS}")
    command = [sys.executable, bench_folder / "replay_loops.py", "--only", "mlp", "--models", tmp_path]
    subprocess.run([*command, tmp_path / "one"], check=True, capture_output=True)
    written = tmp_path / "one" / "mlp.txt"
    again = subprocess.run(
        [*command, tmp_path / "two", "--against", tmp_path / "one"], check=True, capture_output=True, text=True
    )
    assert "no difference" in again.stdout
    written.write_text(written.read_text().replace("def main(", "def other("))
    replay = importlib.import_module("replay_loops")
    assert replay.differences(tmp_path / "two" / "mlp.txt", written) == ["mlp: main is new", "mlp: other is gone"]
