"""The README is short, its programs run, and its figures are those of docs/benchmarks.md."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from scripts import charts

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()
DEPLOY, KERNEL = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_it_has_at_most_60_lines() -> None:
    assert len(README.splitlines()) <= 60


def test_its_means_are_those_of_the_table() -> None:
    """To one hundredth: the ratios of the table are rounded, those that the means were taken of are not."""
    one, two = zip(*(values for _, values in charts.networks().rows), strict=True)
    text = " ".join(README.split())
    (first, second) = re.findall(r"\*\*([\d.]+) times as fast\*\*.*? one thread, ([\d.]+) times on two", text)[0]
    assert abs(float(first) - np.exp(np.mean(np.log(one)))) < 0.01
    assert abs(float(second) - np.exp(np.mean(np.log(two)))) < 0.01
    assert f"lowest {min(*one, *two):.2f})" in text


def test_its_model_is_compiled_saved_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx = pytest.importorskip("onnx", reason="the README's first example reads an ONNX file")
    value = onnx.helper.make_tensor_value_info
    shape = [1, 3, 224, 224]
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "one", [value("x", 1, shape)], [value("y", 1, shape)])
    monkeypatch.chdir(tmp_path)
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), "model.onnx")
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    session: dict[str, object] = {"x": x}
    exec(DEPLOY, session)
    np.testing.assert_array_equal(session["y"], np.maximum(x, 0))
    np.testing.assert_array_equal(session["exe"](x), session["y"])  # type: ignore[operator]


def test_its_kernel_computes_a_matrix_product() -> None:
    session: dict[str, object] = {}
    exec(f"import tilewright as tw\n{KERNEL}", session)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((512, 512)).astype("float32") for _ in range(2))
    c = np.zeros((512, 512), "float32")
    session["gemm"](a, b, c)  # type: ignore[operator]
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-3)
