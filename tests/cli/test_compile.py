"""`tilewright compile`: an artifact or a library, and the report of stages."""

from __future__ import annotations

import ctypes
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.cli.conftest import Command
from tests.onnx_models import perceptron, saved


def test_an_artifact_is_written_whole_and_loads(tilewright: Command, model: Path) -> None:
    path = model.with_suffix(".tw")
    outcome = tilewright("compile", model, "-o", path)
    assert outcome.status == 0 and outcome.err == ""
    assert re.fullmatch(rf"{path}: \d+\.\d MiB, compiled in \d+\.\d\d s\n", outcome.out)
    assert sorted(model.parent.iterdir()) == [model, path]


def test_the_artifact_computes_what_the_model_does(artifact: Path, model: Path) -> None:
    x = np.random.default_rng().standard_normal((1, 8), dtype=np.float32)
    fresh, loaded = tw.compile(model, cache=False), tw.load(artifact)
    assert loaded.inputs == fresh.inputs and loaded.outputs == fresh.outputs
    np.testing.assert_array_equal(loaded(x), fresh(x))


def test_the_report_lists_every_stage(tilewright: Command, model: Path) -> None:
    outcome = tilewright("compile", model, "-o", model.with_suffix(".tw"), "--no-cache", "--report")
    stages = [line.split()[0] for line in outcome.out.splitlines()[1:]]
    assert stages[:2] == ["import", "frontend"]
    assert {"infer_type", "fuse_ops", "plan", "compile", "link", "save", "total"} <= {*stages}


def test_dynamic_shapes_are_fixed(tilewright: Command, tmp_path: Path) -> None:
    model = saved(perceptron(rows="batch"), tmp_path / "dynamic.onnx")
    assert tilewright("compile", model, "-o", tmp_path / "m.tw", "--input-shapes", "x:[5,8]").status == 0
    outcome = tilewright("run", tmp_path / "m.tw")
    assert "y: float32[5, 4]" in outcome.out


@pytest.mark.skipif(shutil.which("cc") is None, reason="linking a library here needs the system's C compiler")
def test_a_library_with_a_header(tilewright: Command, model: Path) -> None:
    path = model.with_name("libperceptron.so")
    assert tilewright("compile", model, "-o", path).status == 0
    assert "int tilewright_perceptron(" in model.with_name("perceptron.h").read_text()
    x, y = np.ones((1, 8), np.float32), np.empty((1, 4), np.float32)
    pointers = [(ctypes.c_void_p * 1)(array.ctypes.data) for array in (x, y)]
    library = ctypes.CDLL(str(path))
    workspace = ctypes.create_string_buffer(library.tilewright_perceptron_workspace_bytes(2))
    assert library.tilewright_perceptron(*pointers, workspace, 2) == 0
    np.testing.assert_allclose(y, tw.compile(model)(x), rtol=1e-5, atol=1e-6)


def test_c_source(tilewright: Command, model: Path, refused: Callable[..., str], artifact: Path) -> None:
    path = model.with_name("perceptron.c")
    outcome = tilewright("compile", model, "-o", path, "--report")
    assert outcome.status == 0
    first, *stages = outcome.out.splitlines()
    took = re.fullmatch(rf"{path}: 0\.0 MiB, compiled in (\d+\.\d\d) s", first)
    (total,) = [float(line.split()[1]) for line in stages if line.startswith("total ")]
    assert took is not None and total > 0 and abs(float(took[1]) - total) <= 0.01
    assert "int tilewright_perceptron(" in model.with_name("perceptron.h").read_text()
    assert "which has no C source; give the model itself" in refused("compile", artifact, "-o", model.with_name("a.c"))


def test_the_executor_by_name(tilewright: Command, model: Path, refused: Callable[..., str]) -> None:
    path = model.with_name("model.tw")
    assert tilewright("compile", model, "-o", path, "--executor", "vm").status == 0
    assert tw.load(path).executor == "vm"
    assert "no executor 'fast'" in refused("compile", model, "-o", model.with_name("m.tw"), "--executor", "fast")
