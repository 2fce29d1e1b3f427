"""`tilewright compile` killed with signal 9 while its workers compile: none of them lives on, and no file is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.onnx_models import make_model
from tests.support.test_processes import is_alive, wait_until


def many_kernels() -> onnx.ModelProto:
    """Convolutions of different sizes: each is a kernel of its own, and takes a while to compile."""
    nodes, weights, channels = [], {}, 3
    for number in range(40):
        made = 16 + 3 * number
        weights[f"w{number}"] = np.ones((made, channels, 3, 3), np.float32)
        nodes.append(helper.make_node("Conv", [f"x{number}", f"w{number}"], [f"x{number + 1}"], pads=[1, 1, 1, 1]))
        channels = made
    image = (TensorProto.FLOAT, (1, 3, 20, 20))
    return make_model(nodes, {"x0": image}, {"x40": (TensorProto.FLOAT, (1, channels, 20, 20))}, weights)


def children_of(process: int) -> list[int]:
    """The processes that `process` has started."""
    found = []
    for folder in Path(f"/proc/{process}/task").glob("*"):
        found += [int(word) for word in (folder / "children").read_text().split()]
    return found


@pytest.mark.sample(1)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one processor nothing is compiled in workers")
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system does not list children in /proc")
@pytest.mark.parametrize("end", [".tw", ".c"])
def test_a_compilation_that_is_killed_leaves_nothing(end: str, tmp_path: Path) -> None:
    positions = [tmp_path / name for name in ("out", "temporary", "cache")]
    for position in positions:
        position.mkdir()
    onnx.save(many_kernels(), tmp_path / "model.onnx")
    settings = {"TMPDIR": str(positions[1]), "TILEWRIGHT_CACHE_DIR": str(positions[2]), "TILEWRIGHT_CACHE": "1"}
    command = [sys.executable, "-m", "tilewright.cli.main", "compile", str(tmp_path / "model.onnx")]
    running = subprocess.Popen(
        [*command, "-o", str(positions[0] / f"model{end}")], env={**os.environ, **settings}, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: running.poll() is not None or len(children_of(running.pid)) > 1)
    workers = children_of(running.pid)
    running.kill()
    assert running.wait() == -9 and len(workers) > 1
    wait_until(lambda: not any(map(is_alive, workers)))
    left = [path for position in positions for path in position.rglob("*") if path.is_file()]
    assert not left
