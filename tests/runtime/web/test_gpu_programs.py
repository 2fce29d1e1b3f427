"""Models with parts on the host for WebGPU: branches, loops and operators of the host, in headless Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.driver.vm.test_source import BRANCH_IN_LOOP, NESTED, SCAN, by_onnxruntime, of
from tests.frontend.onnx.test_models import real_model
from tests.onnx_models import make_model
from tests.runtime.web.test_programs import BRANCH, drawn
from tilewright.errors import InputError, UnsupportedError
from tilewright.runtime.web.gpu_model import WebGpuModel

REAL, WHOLE = TensorProto.FLOAT, TensorProto.INT64


def agree(found: list[Any], wanted: list[Any], error: float = 1e-5) -> None:
    """Compare results in shape, type and value."""
    for got, want in zip(found, wanted, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=error)


@pytest.mark.parametrize("text", [BRANCH, SCAN, BRANCH_IN_LOOP, NESTED], ids=["branch", "scan", "both", "nested"])
@pytest.mark.sample(2)
def test_branches_and_loops(text: str, opened: Any) -> None:
    model = opened(of(text))
    for count in (0, 1, 7):
        inputs = drawn(of(text), count)
        agree(model.run(inputs), by_onnxruntime(of(text), inputs), 2**-11)  # the bound of Vulkan for sine and cosine


def selection() -> Any:
    """A product, the positions of what is not 0 in it, a gather by those, and distinct numbers."""
    weight = np.random.default_rng(0).standard_normal((8, 16)).astype("float32")
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("NonZero", ["r"], ["at"]),
        helper.make_node("Transpose", ["at"], ["t"], perm=[1, 0]),
        helper.make_node("GatherND", ["r", "t"], ["g"]),
        helper.make_node("Sigmoid", ["g"], ["s"]),
        helper.make_node("ReduceSum", ["s"], ["sum"], keepdims=0),
        helper.make_node("Unique", ["n"], ["values", "first", "inverse", "counts"]),
    ]
    outputs = {"s": (REAL, ["K"]), "sum": (REAL, []), "at": (WHOLE, [2, "K"]), "values": (WHOLE, ["U"])}
    return make_model(nodes, {"x": (REAL, [4, 8]), "n": (WHOLE, [9])}, outputs, {"W": weight})


def test_sizes_that_only_a_run_knows(opened: Any) -> None:
    model = opened(selection())
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        feeds = {"x": rng.standard_normal((4, 8)).astype("float32"), "n": rng.integers(-3, 3, 9)}
        agree(model.run(feeds), by_onnxruntime(selection(), feeds))
    feeds["x"][:] = 0  # nothing is selected
    agree(model.run(feeds), by_onnxruntime(selection(), feeds))


def test_boxes_that_do_not_overlap(opened: Any) -> None:
    nodes = [
        helper.make_node("Sigmoid", ["scores"], ["p"]),
        helper.make_node("NonMaxSuppression", ["boxes", "p", "most", "overlap", "least"], ["found"]),
    ]
    known = {"most": np.array(5), "overlap": np.array(0.4, "float32"), "least": np.array(0.3, "float32")}
    shapes = {"boxes": (REAL, [1, 30, 4]), "scores": (REAL, [1, 2, 30])}
    network = make_model(nodes, shapes, {"found": (WHOLE, ["K", 3])}, known)
    rng = np.random.default_rng(0)
    corners = rng.random((1, 30, 2))
    boxes = np.concatenate([corners, corners + rng.random((1, 30, 2)) / 2], -1).astype("float32")
    feeds = {"boxes": boxes, "scores": rng.standard_normal((1, 2, 30)).astype("float32")}
    agree(opened(network).run(feeds), by_onnxruntime(network, feeds))


def test_a_trained_model_with_branches(opened: Any) -> None:
    path = real_model("silero_vad")
    shapes = {"input": [1, 512], "state": [2, 1, 128], "sr": []}
    model, here = opened(path, input_shapes=shapes), tw.compile(path, input_shapes=shapes, cache=False)
    rng = np.random.default_rng(0)
    feeds = {"input": rng.standard_normal((1, 512)).astype("float32") * 0.1, "sr": np.array(16000),
             "state": np.zeros((2, 1, 128), "float32")}  # fmt: skip
    agree(model.run(feeds), here.run(feeds))


def test_the_program_says_what_went_wrong_and_goes_on(opened: Any) -> None:
    model = opened(selection())
    feeds = {"x": np.ones((4, 8), "float32"), "n": np.arange(9)}
    with pytest.raises(InputError, match="computes in 32 bits, which 1099511627776 does not fit"):
        opened(_doubled()).run({"n": np.full(3, 2**40)})
    agree(model.run(feeds), by_onnxruntime(selection(), feeds))
    with pytest.raises(UnsupportedError, match="parts on the host has no list of launches"):
        model.profile(feeds)


def _doubled() -> Any:
    nodes = [helper.make_node("Add", ["n", "n"], ["m"]), helper.make_node("Unique", ["m"], ["u"])]
    return make_model(nodes, {"n": (WHOLE, [3])}, {"u": (WHOLE, ["K"])})


def test_operators_that_javascript_lacks_are_named(tmp_path: Path) -> None:
    nodes = [helper.make_node("Multinomial", ["x"], ["y"], sample_size=3, name="draw")]
    network = make_model(nodes, {"x": (REAL, [1, 4])}, {"y": (TensorProto.INT32, [1, 3])})
    with pytest.raises(UnsupportedError, match=r"onnx\.Multinomial of the node 'draw' .* there is none in JavaScript"):
        WebGpuModel.of(tw.compile(network, target="webgpu", cache=False)).export_web(tmp_path)
    assert not list(tmp_path.iterdir())
