"""Models as C99 source: compiled by the machine's C compiler and called, equal to onnxruntime."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.onnx_models import convolution, perceptron
from tilewright.codegen.source.compile_c import SEMANTICS
from tilewright.compile import export_source
from tilewright.driver import build_source
from tilewright.errors import EnvironmentError_, UnsupportedError

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")


def library(source: Path) -> Any:
    """The source as a library in this process."""
    made = source.with_suffix(".so")
    command = [
        "cc",
        "-std=c99",
        "-O1",
        "-pedantic-errors",
        *SEMANTICS,
        "-shared",
        "-fPIC",
        str(source),
        "-o",
        str(made),
    ]
    subprocess.run([*command, "-lm"], check=True, cwd=source.parent)
    return ctypes.CDLL(str(made))


def call(function: Any, bytes_of: Any, dims: list[int], inputs: list[Any], outputs: list[Any]) -> int:
    """Call a model in C; `dims` are empty where sizes are fixed."""
    bytes_of.restype = ctypes.c_int64
    given = [(ctypes.c_int64 * len(dims))(*dims)] if dims else []
    size = bytes_of(*given, 1)
    if size < 0:
        return -int(size)
    positions = [(ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays]) for arrays in (inputs, outputs)]
    workspace = np.full(size, 0xA5, np.uint8)
    return int(function(*given, *positions, ctypes.c_void_p(workspace.ctypes.data), 1))


def reference(model: onnx.ModelProto, **inputs: Any) -> list[Any]:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)


@needs_cc
def test_a_network_of_fixed_sizes_agrees_with_onnxruntime(tmp_path: Path) -> None:
    files = export_source(convolution(), tmp_path / "image_net.c")
    assert [path.name for path in files] == ["image_net.c", "image_net.h"]
    loaded = library(files[0])
    x, y = (
        np.random.default_rng(3).standard_normal((1, 3, 12, 12), dtype=np.float32),
        np.zeros((1, 16, 1, 1), "float32"),
    )
    bytes_of = loaded.tilewright_image_net_workspace_bytes
    assert call(loaded.tilewright_image_net, bytes_of, [], [x], [y]) == 0
    np.testing.assert_allclose(y, reference(convolution(), image=x)[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(AttributeError):
        loaded.image_net_model  # noqa: B018 - only the model's functions are visible


@needs_cc
def test_symbolic_sizes_and_weights_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_source, "MOST_WEIGHTS_IN_SOURCE", 64)
    model = perceptron(rows="N")
    files = export_source(model, tmp_path / "rows.c", name="p")
    assert [path.name for path in files] == ["rows.c", "p.h", "p.weights"]
    loaded = library(files[0])
    x, y = np.zeros((1, 8), np.float32), np.zeros((1, 4), np.float32)
    assert call(loaded.tilewright_p, loaded.tilewright_p_workspace_bytes, [1], [x], [y]) == 1  # no weights yet
    weights = np.fromfile(files[2], np.uint8)
    loaded.tilewright_p_set_weights(ctypes.c_void_p(weights.ctypes.data))
    for rows in (1, 5, 0):
        x, y = np.random.default_rng(rows).standard_normal((rows, 8), dtype=np.float32), np.zeros((rows, 4), np.float32)
        assert call(loaded.tilewright_p, loaded.tilewright_p_workspace_bytes, [rows], [x], [y]) == 0
        if rows:
            np.testing.assert_allclose(y, reference(model, x=x)[0], rtol=1e-5, atol=1e-5)
    loaded.tilewright_p_error_text.restype = ctypes.c_char_p
    code = call(loaded.tilewright_p, loaded.tilewright_p_workspace_bytes, [-1], [x], [y])
    assert loaded.tilewright_p_error_text(code) == b"N must be from 0 to 2147483646"


@needs_cc
def test_two_models_link_into_one_program(tmp_path: Path) -> None:
    for name in ("one", "two"):
        export_source(perceptron(seed=len(name)), tmp_path / f"{name}.c", name=name)
    body = "{ return tilewright_one(0, 0, 0, 1) != 1 || tilewright_two(0, 0, 0, 1) != 1; }"
    (tmp_path / "main.c").write_text(f'#include "one.h"\n#include "two.h"\nint main(void) {body}\n')
    sources = ["main.c", "one.c", "two.c"]
    subprocess.run(["cc", "-std=c99", "-O0", *SEMANTICS, *sources, "-o", "program", "-lm"], cwd=tmp_path, check=True)
    subprocess.run([str(tmp_path / "program")], check=True)


@pytest.mark.parametrize("target", ["vta", "vta -log_block=5", "webgpu"])
def test_no_source_for_a_device(target: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=f"for one thread of a processor, and the target is {target}[ :]"):
        export_source(perceptron(), tmp_path / "m.c", target=target)
    assert not list(tmp_path.iterdir())


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentError_, match=r"cannot write .*absent/m\.c: No such file"):
        export_source(perceptron(), tmp_path / "absent" / "m.c")
