"""Text for WebGPU devices with and without features: which lines remain, and that both forms find the same numbers."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.onnx_models import make_model
from tests.runtime.gpu.programs import halves, opened, reductions
from tilewright.runtime.gpu.webgpu import WebGPUDevice
from tilewright.runtime.gpu.wgsl_features import HALF, SUBGROUPS, either, for_features

_TEXT = "\n".join(
    ["a", *either(HALF, ["h"], ["w", "w2"]), "b", "  //#if subgroups", "  s", "  //#else", "  //#end", ""]
)


def test_lines_that_remain() -> None:
    assert for_features(_TEXT, ()) == "a\nw\nw2\nb\n"
    assert for_features(_TEXT, {HALF}) == "enable f16;\na\nh\nb\n"
    assert for_features(_TEXT, {HALF, SUBGROUPS}) == "enable f16;\nenable subgroups;\na\nh\nb\n  s\n"
    assert for_features(_TEXT, {HALF, SUBGROUPS}, {HALF}) == "enable f16;\na\nh\nb\n  s\n"
    assert for_features("a\n", {HALF}) == "a\n"


@pytest.fixture
def device() -> WebGPUDevice:
    return cast(WebGPUDevice, opened("webgpu"))


@pytest.mark.parametrize("has_half", [True, False])
def test_models_of_float16(device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch, has_half: bool) -> None:
    if has_half and HALF not in device.language_features:
        pytest.skip("the adapter has no shader-f16")
    monkeypatch.setattr(device, "language_features", frozenset({HALF} if has_half else ()))
    x = np.random.default_rng(1).standard_normal((1, 3, 11, 13)).astype("float16")
    x[0, 0, 0, :4] = [np.inf, 65504, 6e-8, -0.0]
    model, here = tw.compile(halves(), target="webgpu", cache=False), tw.compile(halves(), cache=False)
    *_, moved = model.run({"x": x})
    np.testing.assert_array_equal(moved, x.transpose(0, 2, 3, 1))  # bits of all kinds of numbers
    x[0, 0, 0, :2] = 1
    (y, c, _), (want_y, want_c, _) = model.run({"x": x}), here.run({"x": x})
    np.testing.assert_allclose(c.astype("f4"), want_c.astype("f4"), rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(y.astype("f4"), want_y.astype("f4"), rtol=2e-3, atol=1e-4)


def test_conversions_to_float16_round_as_numpy_does(device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16)
    model = make_model([node], {"x": (TensorProto.FLOAT, [4096])}, {"y": (TensorProto.FLOAT16, [4096])})
    x = (np.random.default_rng(0).standard_normal(4096) * 100).astype("float32")
    for features in (device.language_features, frozenset[str]()):
        monkeypatch.setattr(device, "language_features", features)
        found = tw.compile(model, target="webgpu", cache=False)(x)
        np.testing.assert_array_equal(found, x.astype("float16"))


def test_reductions_have_the_same_bits_with_subgroups_and_without(
    device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    if SUBGROUPS not in device.language_features:
        pytest.skip("the adapter has no subgroups")
    model, feeds = reductions()
    found, here = [], tw.compile(model, cache=False).run(feeds)
    for features in (frozenset({SUBGROUPS}), frozenset[str]()):
        monkeypatch.setattr(device, "language_features", features)
        found.append(tw.compile(model, target="webgpu", cache=False).run(feeds))
    for one, other, want in zip(*found, here, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-5)
