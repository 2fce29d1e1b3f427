"""Models as C for machines without a system: no library, no warnings, nothing written that is not the caller's."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper

from tests.driver.test_build_source import call, library, reference
from tests.onnx_models import convolution, make_model, perceptron
from tilewright.codegen.source.compile_c import SEMANTICS
from tilewright.codegen.source.prelude import source_prelude
from tilewright.compile import export_image, export_source
from tilewright.errors import UnsupportedError

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")


def softmax() -> onnx.ModelProto:
    """A model of exponentials, roots and roundings."""
    text = """
    <ir_version: 8, opset_import: ["" : 17]> g (float[4, 10] x) => (float[4, 10] y) {
      a = Abs(x) s = Sqrt(a) f = Floor(x) r = Round(x) e = Exp(x) t = Tanh(f) l = Log(s)
      u = Add(e, t) v = Add(r, s) w = Add(u, v) z = Add(w, l) y = Softmax(z)
    }
    """
    return onnx.parser.parse_model(text)


@needs_cc
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("model", [convolution, perceptron, softmax])
@pytest.mark.sample(3)
def test_needs_no_library_and_compiles_without_warnings(model: Any, compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    source, header = export_source(model(), tmp_path / "net.c", freestanding=True)
    includes = {line for path in (source, header) for line in path.read_text().splitlines() if "#include" in line}
    assert includes == {f"#include {name}" for name in ('"net.h"', "<stdbool.h>", "<stdint.h>", "<stddef.h>")}
    command = [compiler, "-std=c99", "-O1", *WARNINGS, *SEMANTICS[:3], "-c", source.name]
    subprocess.run(command, cwd=tmp_path, check=True)
    undefined = subprocess.run(["nm", "-u", "net.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert set(undefined.replace(" U ", "").split()) <= {"memcpy", "memset"}
    sections = subprocess.run(["size", "-A", "net.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    sizes = {line.split()[0]: int(line.split()[1]) for line in sections.splitlines() if line.startswith(".")}
    assert not any(sizes.get(name) for name in (".data", ".bss", ".tdata", ".tbss", ".init_array", ".ctors"))


@needs_cc
def test_results_are_those_of_the_ordinary_source(tmp_path: Path) -> None:
    x = np.random.default_rng(4).standard_normal((4, 10), dtype=np.float32)
    results = []
    for name, freestanding in (("own", True), ("plain", False)):
        loaded = library(export_source(softmax(), tmp_path / f"{name}.c", freestanding=freestanding)[0])
        y = np.zeros((4, 10), np.float32)
        assert run(loaded, name, [x], [y]) == 0
        results.append(y)
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], reference(softmax(), x=x)[0], rtol=1e-5, atol=1e-6)


def run(loaded: Any, name: str, inputs: list[Any], outputs: list[Any], size: int = 1 << 16, shift: int = 0) -> int:
    """Call the checked function with a workspace of `size` bytes, `shift` bytes off its alignment."""
    room = np.full(size + 192, 0xA5, np.uint8)
    start = -room.ctypes.data % 64 + 64
    arrays = [
        (ctypes.c_void_p * len(some))(*[a.ctypes.data if hasattr(a, "ctypes") else a for a in some])
        for some in (inputs, outputs)
    ]
    position = ctypes.c_void_p(room.ctypes.data + start + shift)
    code = getattr(loaded, f"tilewright_{name}_run")(*arrays, position, ctypes.c_size_t(size))
    assert (room[:start] == 0xA5).all() and (room[start + shift + size :] == 0xA5).all()
    return int(code)


@needs_cc
def test_faults_are_codes_and_touch_nothing(tmp_path: Path) -> None:
    source, header = export_source(convolution(), tmp_path / "net.c", freestanding=True)
    size = interface_size(header)
    assert "#define TILEWRIGHT_NET_WORKSPACE_ALIGNMENT 64\n" in header.read_text()
    loaded = library(source)
    x = np.random.default_rng(3).standard_normal((1, 3, 12, 12), dtype=np.float32)
    y = np.zeros((1, 16, 1, 1), np.float32)
    assert run(loaded, "net", [0], [y], size) == 1
    assert run(loaded, "net", [x], [0], size) == 1
    assert loaded.tilewright_net_run(0, 0, 0, 0) == 1
    assert run(loaded, "net", [x], [y], size - 1) == 3
    assert run(loaded, "net", [x], [y], size, shift=4) == 4
    assert run(loaded, "net", [x.ctypes.data + 2], [y], size) == 4
    assert run(loaded, "net", [x], [y.ctypes.data + 1], size) == 4
    assert not y.any()
    assert run(loaded, "net", [x], [y], size) == 0  # within those bytes, and no others
    np.testing.assert_allclose(y, reference(convolution(), image=x)[0], rtol=1e-4, atol=1e-5)
    loaded.tilewright_net_error_text.restype = ctypes.c_char_p
    assert loaded.tilewright_net_error_text(3) == b"the workspace is too small"
    assert loaded.tilewright_net_error_text(4) == b"a pointer is not aligned"


@needs_cc
def test_symbolic_sizes_check_the_workspace_too(tmp_path: Path) -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 17]> g (float[N, 8] x, float[8, 8] w) => (float[N, 8] y) {
      a = MatMul(x, w) y = MatMul(a, w)
    }
    """
    model = onnx.parser.parse_model(text)
    loaded = library(export_source(model, tmp_path / "p.c", freestanding=True)[0])
    generator = np.random.default_rng(0)
    x, w = (generator.standard_normal(shape, dtype=np.float32) for shape in ((5, 8), (8, 8)))
    y = np.zeros((5, 8), np.float32)
    rows = (ctypes.c_int64 * 1)(5)
    loaded.tilewright_p_workspace_bytes.restype = ctypes.c_int64
    size = loaded.tilewright_p_workspace_bytes(rows, 1) - 63
    room = np.zeros(size + 64, np.uint8)
    position = ctypes.c_void_p(room.ctypes.data + -room.ctypes.data % 64)
    arrays = [(ctypes.c_void_p * len(some))(*[a.ctypes.data for a in some]) for some in ((x, w), (y,))]
    assert loaded.tilewright_p_run(rows, *arrays, position, ctypes.c_size_t(size - 1)) == 3
    assert loaded.tilewright_p_run(rows, *arrays, position, ctypes.c_size_t(size)) == 0
    np.testing.assert_allclose(y, reference(model, x=x, w=w)[0], rtol=1e-4, atol=1e-4)


_SANITIZED = """
#include "net.h"
#include <stdlib.h>
int main(void) {
  unsigned char *workspace = aligned_alloc(64, (TILEWRIGHT_NET_WORKSPACE_SIZE + 63) / 64 * 64);
  int turn, i, code = 0;
  for (turn = 0; turn < 20; turn++) {
    float *x = malloc(4 * 10 * 4), *y = malloc(4 * 10 * 4);
    const void *inputs[1];
    void *outputs[1];
    for (i = 0; i < 40; i++) x[i] = (float)rand() / 1e8f - 10.0f;
    inputs[0] = x;
    outputs[0] = y;
    code |= tilewright_net_run(inputs, outputs, workspace, TILEWRIGHT_NET_WORKSPACE_SIZE);
    free(x);
    free(y);
  }
  free(workspace);
  return code;
}
"""


@needs_cc
def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    export_source(softmax(), tmp_path / "net.c", freestanding=True)
    (tmp_path / "main.c").write_text(_SANITIZED)
    options = ["-std=c11", "-O1", *SEMANTICS[:3], "-fsanitize=undefined,address", "-fno-sanitize-recover=all"]
    built = subprocess.run(["cc", *options, "main.c", "net.c", "-o", "program"], cwd=tmp_path, capture_output=True)
    if built.returncode:
        pytest.skip(f"the C compiler has no sanitizers: {built.stderr.decode()[-200:]}")
    subprocess.run([str(tmp_path / "program")], check=True)


def test_functions_of_the_library_are_refused_by_name(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (double[1] x) => (double[1] y) { y = Sin(x) }'
    model = onnx.parser.parse_model(text)
    with pytest.raises(UnsupportedError, match="the model calls sin of the C library, which --freestanding leaves out"):
        export_source(model, tmp_path / "m.c", freestanding=True)
    source, _ = export_source(model, tmp_path / "m.c")
    assert "#include <math.h>" in source.read_text()


_OWN = """
{prelude}
void all_of(int32_t n, const float* x, const float* y, float* out) {{
  int32_t i;
  for (i = 0; i < n; i++) {{
    {calls}
  }}
}}
"""
_FUNCTIONS = {
    "floorf": np.floor, "ceilf": np.ceil, "truncf": np.trunc, "rintf": np.rint, "fabsf": np.abs, "sqrtf": np.sqrt,
    "fmodf": np.fmod, "copysignf": np.copysign,
}  # fmt: skip


@needs_cc
def test_functions_that_models_bring_along_are_exact(tmp_path: Path) -> None:
    calls = [
        f"out[{i} * n + i] = {name}(x[i]{', y[i]' if name in ('fmodf', 'copysignf') else ''});"
        for i, name in enumerate(_FUNCTIONS)
    ]
    body = "\n    ".join(calls)
    (tmp_path / "own.c").write_text(_OWN.format(prelude=source_prelude([body], freestanding=True), calls=body))
    command = ["cc", "-std=c99", "-O2", "-shared", "-fPIC", "-nostdlib", "own.c", "-o", "own.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    generator = np.random.default_rng(7)
    bits = generator.integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    edges = np.array(
        [0, -0.0, 0.5, -0.5, 1.5, 2.5, 8388607.5, 8388608, -8388609, 1e-45, np.inf, -np.inf, np.nan, 2, 4], "f"
    )
    x = np.concatenate([bits, edges, generator.standard_normal(20_000).astype("f") * 100])
    with np.errstate(all="ignore"):
        y = generator.permutation(x)
        y = np.where(np.abs(x) < np.abs(y) * 1e6, y, x / 3).astype(
            "f"
        )  # a remainder takes a turn a bit of the quotient
    out = np.zeros((len(_FUNCTIONS), x.size), np.float32)
    loaded = ctypes.CDLL(str(tmp_path / "own.so"))
    loaded.all_of(x.size, *[ctypes.c_void_p(a.ctypes.data) for a in (x, y, out)])
    with np.errstate(all="ignore"):
        for row, (name, function) in zip(out, _FUNCTIONS.items(), strict=True):
            want = function(x, y) if name in ("fmodf", "copysignf") else function(x)
            same = (row.view(np.uint32) == want.view(np.uint32)) | (np.isnan(row) & np.isnan(want))
            assert same.all(), (name, x[~same][:3], y[~same][:3], row[~same][:3], want[~same][:3])


@needs_cc
def test_models_in_one_image_share_memory_and_constants(tmp_path: Path) -> None:
    models = {"first": perceptron(seed=3), "again": perceptron(seed=3), "other": convolution()}
    source, header = export_image(models, tmp_path / "image.c", freestanding=True)
    alone = [export_source(model, tmp_path / f"{name}.c") for name, model in models.items()]
    text = header.read_text()
    sizes = [interface_size(files[1]) for files in alone]
    assert f"#define TILEWRIGHT_IMAGE_WORKSPACE_SIZE {max(sizes)}\n" in text
    twice = source.stat().st_size
    files = export_image({"first": models["first"], "other": models["other"]}, tmp_path / "once.c", freestanding=True)
    assert twice < 1.1 * files[0].stat().st_size  # the second of two equal models costs an entry
    loaded = library(source)
    x, y = np.random.default_rng(1).standard_normal((1, 8), dtype=np.float32), np.zeros((1, 4), np.float32)
    for name in ("first", "again"):
        y[:] = 0
        assert run(loaded, name, [x], [y], max(sizes)) == 0
        np.testing.assert_allclose(y, reference(models["first"], x=x)[0], rtol=1e-5, atol=1e-5)


def interface_size(header: Path) -> int:
    line = next(line for line in header.read_text().splitlines() if "_WORKSPACE_SIZE " in line)
    return int(line.split()[-1])


def test_a_tile_at_the_rim_of_an_image_is_written_once(tmp_path: Path) -> None:
    weights = {"v": np.ones((32, 16, 1, 1), np.float32), "w": np.ones((32, 1, 3, 3), np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["t"], name="pointwise"),
        helper.make_node("Conv", ["t", "w"], ["y"], name="depthwise", group=32, pads=[1, 1, 1, 1]),
    ]
    shapes = {"x": (TensorProto.FLOAT, (1, 16, 28, 28))}, {"y": (TensorProto.FLOAT, (1, 32, 28, 28))}
    model = make_model(nodes, *shapes, weights)
    source, *_ = export_source(model, tmp_path / "net.c", target="c -mcpu=cascadelake", freestanding=True)
    sums = re.findall(r"^ +(depthwise\w*_0) = ", source.read_text(), re.MULTILINE)
    assert len(set(sums)) == 1 and len(sums) == 1 + 3 * 3  # zero, and a product for each tap


@needs_cc
def test_layers_that_differ_in_their_channels_share_a_function(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    weights = {f"w{i}": rng.standard_normal((32, 32 * (i + 1), 1, 1), dtype=np.float32) / 9 for i in range(3)}
    nodes, made = [], ["x"]
    for i in range(3):
        nodes.append(helper.make_node("Concat", list(made), [f"c{i}"], axis=1))
        nodes.append(helper.make_node("Conv", [f"c{i}", f"w{i}"], [f"y{i}"]))
        made.append(f"y{i}")
    x = rng.standard_normal((1, 32, 14, 14), dtype=np.float32)
    shapes = {"x": (TensorProto.FLOAT, x.shape)}, {"y2": (TensorProto.FLOAT, x.shape)}
    model = make_model(nodes, *shapes, weights)
    source, *_ = export_source(model, tmp_path / "net.c", target="c -mcpu=cascadelake", freestanding=True)
    calls = re.findall(r"^  return (fused_nn_conv2d\w*_shared)\(", source.read_text(), re.MULTILINE)
    assert len(calls) >= 2 and len(set(calls)) == 1
    y, loaded = np.zeros_like(x), library(source)
    assert call(loaded.tilewright_net, loaded.tilewright_net_workspace_bytes, [], [x], [y]) == 0
    np.testing.assert_allclose(y, reference(model, x=x)[0], rtol=1e-4, atol=1e-4)
