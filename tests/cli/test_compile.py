"""`tilewright compile`: an artifact or a library, and the report of stages."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.cli.conftest import Command
from tests.onnx_models import convolution, perceptron, saved
from tilewright.support.cache import SUBDIRECTORY


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


def test_c_source_is_written_with_its_header(
    tilewright: Command, model: Path, refused: Callable[..., str], artifact: Path
) -> None:
    path = model.with_name("perceptron.c")
    outcome = tilewright("compile", model, "-o", path, "--report")
    assert outcome.status == 0
    first, *stages = outcome.out.splitlines()
    took = re.fullmatch(rf"{path}: 0\.0 MiB, compiled in (\d+\.\d\d) s", first)
    (total,) = [float(line.split()[1]) for line in stages if line.startswith("total ")]
    assert took is not None and total > 0 and abs(float(took[1]) - total) <= 0.01
    assert "int tilewright_perceptron(" in model.with_name("perceptron.h").read_text()
    assert "which has no C source; name the model itself" in refused("compile", artifact, "-o", model.with_name("a.c"))


def test_c_source_in_steps(tilewright: Command, tmp_path: Path, refused: Callable[..., str]) -> None:
    nodes = [helper.make_node("Add", ["x", "h"], ["y"])]
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (4,)) for name in ("x", "h", "y")]
    graph = helper.make_graph(nodes, "sum", tensors[:2], tensors[2:])
    model = saved(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "sum.onnx")
    assert tilewright("compile", model, "-o", tmp_path / "sum.c", "--state", "h=y").status == 0
    assert "int tilewright_sum_step(" in (tmp_path / "sum.h").read_text()
    assert "--state h: write INPUT=OUTPUT" in refused("compile", model, "-o", tmp_path / "other.c", "--state", "h")


def test_an_ending_that_nothing_is_written_with_is_refused(
    model: Path, refused: Callable[..., str], tmp_path: Path
) -> None:
    output = tmp_path / "model.dll"
    message = refused("compile", model, "-o", output)
    assert "ends in .dll" in message and ".tw" in message and ".so" in message
    assert not output.exists()


def test_the_executor_by_name(tilewright: Command, model: Path, refused: Callable[..., str]) -> None:
    path = model.with_name("model.tw")
    assert tilewright("compile", model, "-o", path, "--executor", "vm").status == 0
    assert tw.load(path).executor == "vm"
    assert "no executor 'fast'" in refused("compile", model, "-o", model.with_name("m.tw"), "--executor", "fast")


def test_a_link_is_followed_and_a_device_is_not_replaced(tilewright: Command, model: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.tw").symlink_to(tmp_path / "elsewhere" / "real.tw")
    for _ in range(2):  # made, then replaced
        assert tilewright("compile", model, "-o", tmp_path / "link.tw").status == 0
        assert (tmp_path / "link.tw").is_symlink() and (tmp_path / "elsewhere" / "real.tw").is_file()
    before = os.stat(os.devnull)
    outcome = tilewright("compile", model, "-o", os.devnull)
    assert outcome.status == 0 and outcome.err == ""
    assert os.stat(os.devnull).st_ino == before.st_ino and not Path(os.devnull).is_file()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_device_is_one_message(tilewright: Command, model: Path) -> None:
    outcome = tilewright("compile", model, "-o", "/dev/full")
    assert outcome.status == 2
    assert outcome.err == "error: cannot write /dev/full: No space left on device\n"


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits on the size of files")
def test_a_full_disk_costs_the_cache_entry_and_not_the_model(model: Path, tmp_path: Path) -> None:
    """Files may be no longer than one page: nothing can be cached, and an artifact cannot be written."""
    program = """
        import resource, sys
        import numpy as np
        import tilewright as tw
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        exe = tw.compile(sys.argv[1])
        print(exe(np.ones((1, 8), np.float32)).shape)
        try:
            exe.save(sys.argv[2])
        except tw.errors.ArtifactError as error:
            print(error)
    """
    # Python itself would leave cut-off bytecode for whoever imports the same modules later
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), model, tmp_path / "model.tw"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["(1, 4)", f"cannot write {tmp_path / 'model.tw'}: File too large"]
    assert done.stderr.count("cannot write to the cache directory") == 1
    assert not (tmp_path / "model.tw").exists() and not list((tmp_path / "cache" / SUBDIRECTORY / "artifact").iterdir())


def test_source_for_boards(tilewright: Command, tmp_path: Path) -> None:
    first, second = (
        saved(model, tmp_path / name) for model, name in ((perceptron(), "a.onnx"), (convolution(), "b.onnx"))
    )
    done = tilewright("compile", first, second, "-o", tmp_path / "two.c", "--freestanding", "--report")
    assert done.status == 0, done.err
    header = (tmp_path / "two.h").read_text()
    assert "int tilewright_a_run(" in header and "int tilewright_b_run(" in header
    assert "#define TILEWRIGHT_TWO_WORKSPACE_SIZE " in header
    assert "b: workspace " in done.out and "layer (buffers alive" in done.out
    refused = tilewright("compile", second, "-o", tmp_path / "b.c", "--ram-limit", 16)
    assert (
        refused.status == 2
        and "the smallest workspace that was reached is " in refused.err
        and "--ram-limit is 16" in refused.err
    )
    assert not [*tmp_path.glob("b.[ch]"), *tmp_path.glob(".tilewright*")]
    assert "this is for C source" in tilewright("compile", first, "-o", tmp_path / "a.tw", "--freestanding").err
