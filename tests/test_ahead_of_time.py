"""`executor="aot"`: a model as one C function, run from Python like any other and from C without it."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.onnx_models import convolution, make_model, perceptron
from tilewright import relay
from tilewright.errors import InputError, UnsupportedError
from tilewright.relay import op
from tilewright.relay.ir.module import IRModule

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")


def images(height: int | str = "H", width: int | str = "W") -> Any:
    """A small residual network: two convolutions, a sum, a pool; image float32 [1, 3, H, W]."""
    generator = np.random.default_rng(5)
    weights = {
        "a": generator.standard_normal((16, 3, 3, 3), dtype=np.float32),
        "b": generator.standard_normal((16, 16, 3, 3), dtype=np.float32) / 8,
    }
    nodes = [
        helper.make_node("Conv", ["image", "a"], ["c"], name="stem", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"], name="stem_relu"),
        helper.make_node("Conv", ["r", "b"], ["d"], name="body", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["d", "r"], ["s"], name="skip"),
        helper.make_node("AveragePool", ["s"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalMaxPool", ["s"], ["m"], name="most"),
    ]
    outputs = {"p": (TensorProto.FLOAT, (1, 16, "h", "w")), "m": (TensorProto.FLOAT, (1, 16, 1, 1))}
    return make_model(nodes, {"image": (TensorProto.FLOAT, (1, 3, height, width))}, outputs, weights)


def image(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height).standard_normal((1, 3, height, width), dtype=np.float32)


def reference(model: Any, **inputs: np.ndarray) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)


def test_the_results_of_the_graph_executor(tmp_path: Path) -> None:
    x = image(12, 12)
    graph, exe = (tw.compile(convolution(), executor=executor, cache=False) for executor in ("graph", "aot"))
    assert (graph.executor, exe.executor) == ("graph", "aot")
    np.testing.assert_array_equal(exe(x), graph(x))
    for threads in (1, 3):
        exe.set_threads(threads)
        np.testing.assert_array_equal(exe(x), graph(x))
    assert len(exe.time({"image": x}, repeat=3)) == 3
    assert [row.source for row in exe.profile({"image": x})] == [row.source for row in graph.profile({"image": x})]
    exe.save(tmp_path / "model.tw")
    loaded = tw.load(tmp_path / "model.tw")
    assert loaded.executor == "aot"
    filled = np.zeros((1, 16, 1, 1), np.float32)
    assert loaded.run({"image": x}, outputs=[filled])[0] is filled
    np.testing.assert_array_equal(filled, graph(x))


def test_symbolic_sizes_are_arguments_of_the_function() -> None:
    model = images()
    exe = tw.compile(model, executor="aot", cache=False)
    for height, width in ((20, 33), (64, 48), (8, 8), (20, 33)):
        x = image(height, width)
        for got, wanted in zip(exe.run({"image": x}), reference(model, image=x), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    assert len(exe.profile({"image": x})) == len(exe.manifest.kernels)
    with pytest.raises(InputError, match=r"wrong shape: float32\[1, 4, 8, 8\] given"):
        exe(np.zeros((1, 4, 8, 8), np.float32))


def test_sizes_that_must_be_equal() -> None:
    x, y = (relay.var(name, relay.TensorType((tw.te.size_var(dim), 4), "float32")) for name, dim in ("xH", "yW"))
    exe = tw.compile(IRModule.from_expr(relay.Function([x, y], op.add(op.exp(x), y))), executor="aot")
    one, two = np.ones((3, 4), np.float32), np.ones((5, 4), np.float32)
    np.testing.assert_allclose(exe(one, one), np.exp(one) + one, rtol=1e-6)
    with pytest.raises(InputError, match="H = 3 and W = 5 must be equal"):
        exe(one, two)


def branching() -> Any:
    branches = [
        helper.make_graph([helper.make_node(kind, ["x"], [out], name=f"inner_{kind}")], kind, [], [
            helper.make_tensor_value_info(out, TensorProto.FLOAT, (4,))
        ])
        for kind, out in (("Relu", "a"), ("Neg", "b"))
    ]  # fmt: skip
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], name="total", keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"], name="is_positive"),
        helper.make_node("If", ["positive"], ["y"], name="choose", then_branch=branches[0], else_branch=branches[1]),
    ]
    vector = (TensorProto.FLOAT, (4,))
    return make_model(nodes, {"x": vector}, {"y": vector}, {"zero": np.float32(0)})


def nonzero() -> Any:
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("NonZero", ["a"], ["y"], name="find")]
    return make_model(nodes, {"x": (TensorProto.FLOAT, (4,))}, {"y": (TensorProto.INT64, (1, "n"))})


@pytest.mark.parametrize("executor", ["graph", "aot"])
@pytest.mark.parametrize(
    ("model", "words"),
    [(branching, "a branch on the result of the node 'is_positive'"), (nonzero, "of the node 'find', ")],
)
def test_a_model_that_needs_the_virtual_machine(executor: str, model: Any, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words) as caught:
        tw.compile(model(), executor=executor)
    assert f'"{executor}"' in str(caught.value) and 'use "vm" or "auto"' in str(caught.value)


def test_a_library_of_what_runs_on_the_host(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"the operator onnx\.NonZero of the node 'find' runs on the host"):
        tw.compile(nonzero()).export_library(tmp_path / "libm.so")
    assert not list(tmp_path.iterdir())


class Library:
    """An exported library of symbolic sizes, called as its header says."""

    def __init__(self, path: Path, name: str) -> None:
        loaded = ctypes.CDLL(str(path))
        self.run = loaded[f"tilewright_{name}"]
        self.shapes = loaded[f"tilewright_{name}_output_shapes"]
        self.workspace_bytes = loaded[f"tilewright_{name}_workspace_bytes"]
        self.text = loaded[f"tilewright_{name}_error_text"]
        self.workspace_bytes.restype = ctypes.c_int64
        self.text.restype = ctypes.c_char_p

    def __call__(self, dims: list[int], inputs: list[np.ndarray], outputs: list[np.ndarray], threads: int) -> int:
        given = (ctypes.c_int64 * len(dims))(*dims)
        size = self.workspace_bytes(given, threads)
        if size < 0:
            return -int(size)
        workspace = np.zeros(size, np.uint8)
        positions = [(ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays]) for arrays in (inputs, outputs)]
        return int(self.run(given, *positions, ctypes.c_void_p(workspace.ctypes.data), threads))


@needs_cc
def test_a_library_of_symbolic_sizes(tmp_path: Path) -> None:
    model = images()
    path, header = tw.compile(model, cache=False).export_library(tmp_path / "libimages.so")
    text = header.read_text()
    assert "#define TILEWRIGHT_IMAGES_DIM_W 1" in text and "dims[0] H" in text
    assert "[0] image: float32[1, 3, H, W]" in text
    library = Library(path, "images")
    for (height, width), threads in (((20, 33), 1), ((64, 48), 2), ((8, 8), 3)):
        x, shapes = image(height, width), np.zeros(8, np.int64)
        assert library.shapes((ctypes.c_int64 * 2)(height, width), ctypes.c_void_p(shapes.ctypes.data)) == 0
        wanted = reference(model, image=x)
        assert shapes.tolist() == [size for array in wanted for size in array.shape]
        outputs = [np.zeros(array.shape, np.float32) for array in wanted]
        assert library([height, width], [x], outputs, threads) == 0
        for got, expected in zip(outputs, wanted, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    assert library.text(library([-1, 8], [x], outputs, 1)) == b"H must be from 0 to 2147483646"
    assert library.text(library([2**20, 2**20], [x], outputs, 1)) == b"input image has more than 2147483647 elements"
    assert library.text(library([8, 8], [x], outputs, 0)) == b"threads must be at least 1"


PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "rows.h"
int main(void) {
    int64_t dims[TILEWRIGHT_ROWS_DIMS], shape[2];
    float x[3 * 8], y[3 * 4];
    const void *inputs[1] = {x};
    void *outputs[1] = {y}, *workspace;
    int i, code;
    for (i = 0; i < 24; i++) x[i] = (float)i / 16;
    dims[TILEWRIGHT_ROWS_DIM_N] = 3;
    if (tilewright_rows_output_shapes(dims, shape)) return 1;
    workspace = malloc((size_t)tilewright_rows_workspace_bytes(dims, 2));
    code = tilewright_rows(dims, inputs, outputs, workspace, 2);
    printf("%d %d %s", (int)shape[0], (int)shape[1], tilewright_rows_error_text(code));
    for (i = 0; i < 12; i++) printf(" %.9g", y[i]);
    free(workspace);
    return 0;
}
"""


@needs_cc
def test_a_c_program_gives_the_sizes(tmp_path: Path) -> None:
    model = perceptron(rows="N")
    tw.compile(model, executor="aot", cache=False).export_library(tmp_path / "librows.so")
    (tmp_path / "program.c").write_text(PROGRAM)
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c99"]
    command = ["cc", *strict, "program.c", "-L.", "-lrows", "-Wl,-rpath,$ORIGIN", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    printed = subprocess.run(["./program"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()
    assert printed[:3] == ["3", "4", "success"]
    (wanted,) = reference(model, x=(np.arange(24, dtype=np.float32) / 16).reshape(3, 8))
    np.testing.assert_allclose(np.array(printed[3:], np.float32).reshape(3, 4), wanted, rtol=1e-6)


@needs_cc
@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("magika") is None, reason="magika is not installed")
def test_a_trained_model_as_a_library(tmp_path: Path) -> None:
    import magika

    path = next(Path(magika.__file__).parent.rglob("*.onnx"))
    exported, _ = tw.compile(path).export_library(tmp_path / "libmagika.so")
    library = Library(exported, "magika")
    session = onnxruntime.InferenceSession(path)
    for rows, threads in ((1, 2), (3, 1)):
        x = np.random.default_rng(rows).integers(0, 257, (rows, 2048), np.int32)
        (wanted,) = session.run(None, {"bytes": x})
        got = np.zeros_like(wanted)
        assert library([rows], [x], [got], threads) == 0
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
