"""The logger `tilewright`: told of stages, cache and threads; silent where nobody listens, and not even imported."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright as tw
from tests.onnx_models import perceptron, saved

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys
import numpy as np
import tilewright as tw
from tilewright import relay
x = relay.var("x", shape=(3,))
model = tw.compile(relay.IRModule.from_expr(relay.Function([x], relay.exp(x))))
model(np.ones(3, np.float32))
"""


def test_stages_threads_and_the_cache_are_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    path = saved(perceptron(), tmp_path / "model.onnx")
    with caplog.at_level(logging.DEBUG, "tilewright"):
        tw.compile(path, threads=1)
        tw.compile(path, threads=1)
    texts = [record.getMessage() for record in caplog.records if record.name == "tilewright"]
    assert any(text.startswith("fuse_ops: ") for text in texts)
    assert any(text.startswith("1 workers, of ") for text in texts)
    assert any(text.startswith("load from cache: ") for text in texts)


def test_nothing_is_printed_where_nobody_listens() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""
