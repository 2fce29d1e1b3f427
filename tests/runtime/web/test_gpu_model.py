"""Models for WebGPU: in headless Chromium on SwiftShader, and what is refused there, in Node and when written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.onnx_models import convolution, make_model, perceptron
from tests.runtime.gpu.programs import halves, reductions
from tests.runtime.web.helpers import in_node, needs_node
from tilewright.errors import EnvironmentError_, InputError, TargetError
from tilewright.runtime.gpu.noted_steps import codes_for
from tilewright.runtime.gpu.wgsl_features import for_features
from tilewright.runtime.web.gpu_model import WebGpuModel
from tilewright.runtime.web.process import InProcess, program_of


def compiled(model: Any) -> WebGpuModel:
    return WebGpuModel.of(tw.compile(model, target="webgpu", cache=False))


def test_a_convolution_in_chromium_is_as_on_the_processor(opened: Any) -> None:
    model = opened(convolution())
    assert "swiftshader" in model.note
    for seed in (0, 1):  # the second run finds the memory of the first
        x = np.random.default_rng(seed).standard_normal((1, 3, 12, 12)).astype("float32")
        np.testing.assert_allclose(model(x), tw.compile(convolution(), cache=False)(x), rtol=1e-5, atol=1e-6)
    assert len(model.time({"image": x}, repeat=3)) == 3
    profile = model.profile({"image": x}, repeat=2)
    assert [one.kernel for one in profile] == [call.name for call in model.manifest.kernels]
    assert all(one.seconds > 0 for one in profile)
    with pytest.raises(InputError, match="'node' has no WebGPU"):
        model.use("node")


def copies() -> Any:
    """An input that is an output too, bytes of an odd number, integers of 64 bits."""
    nodes = [
        helper.make_node("Identity", ["n"], ["same"]),
        helper.make_node("Not", ["b"], ["turned"]),
        helper.make_node("Add", ["n", "n"], ["twice"]),
    ]
    whole, bits = (TensorProto.INT64, [3]), (TensorProto.BOOL, [5])
    return make_model(nodes, {"n": whole, "b": bits}, {"same": whole, "turned": bits, "twice": whole})


def test_copies_bytes_and_wide_integers(opened: Any) -> None:
    model = opened(copies())
    n, b = np.array([1, -2, 5]), np.array([True, False, True, True, False])
    same, turned, twice = model.run({"n": n, "b": b})
    np.testing.assert_array_equal(same, n)
    np.testing.assert_array_equal(turned, ~b)
    np.testing.assert_array_equal(twice, 2 * n)
    with pytest.raises(InputError, match="computes in 32 bits, which 4294967296 does not fit"):
        model.run({"n": np.array([1, 2, 2**32]), "b": b})
    np.testing.assert_array_equal(model.run({"n": n, "b": b})[0], n)  # the model is still there


def open_sizes() -> Any:
    """Images of any size: windows, a softmax, a copy, outputs of several shapes; and an LSTM over any time."""
    rng = np.random.default_rng(0)
    shapes = {"w": (8, 3, 3, 3), "W": (1, 20, 6), "R": (1, 20, 5)}
    weights = {name: (rng.standard_normal(shape) * 0.3).astype("float32") for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Softmax", ["c"], ["s"], axis=1),
        helper.make_node("Concat", ["s", "c"], ["joined"], axis=0),
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("LSTM", ["t", "W", "R"], ["states", ""], hidden_size=5),
    ]
    inputs = {"x": (TensorProto.FLOAT, ["N", 3, "H", "W"]), "t": (TensorProto.FLOAT, ["T", "N", 6])}
    outputs = dict.fromkeys(("joined", "same", "states"), (TensorProto.FLOAT, None))
    return make_model(nodes, inputs, outputs, weights)  # type: ignore[arg-type]


def test_open_sizes_in_chromium(opened: Any) -> None:
    model, here = opened(open_sizes()), tw.compile(open_sizes(), cache=False)
    rng = np.random.default_rng(1)
    for n, height, width, time in ((1, 12, 10, 4), (2, 7, 33, 1), (3, 40, 24, 9), (1, 12, 10, 4)):
        shapes = {"x": (n, 3, height, width), "t": (time, n, 6)}
        feeds = {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
        for got, want in zip(model.run(feeds), here.run(feeds), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    feeds["t"] = feeds["t"][:, [0, 0]]
    with pytest.raises(InputError, match="axis 1"):
        model.run(feeds)


class _SmallBuffers(WebGpuModel):
    """A model whose runtime takes the adapter's largest buffer to have 256 bytes."""

    def export_web(self, folder: Any, name: str = "model") -> list[Path]:
        written = super().export_web(folder, name)
        module = Path(folder, f"{name}.mjs")
        text = module.read_text("utf-8")
        assert text.count("gpu.limits.maxBufferSize)") == 1
        module.write_text(text.replace("gpu.limits.maxBufferSize)", "256)"), "utf-8")
        return written


def test_weights_in_several_buffers(opened: Any) -> None:
    opened(perceptron())  # skipped without Chromium
    model, here = (
        _SmallBuffers.of(tw.compile(perceptron(), target="webgpu", cache=False)),
        tw.compile(perceptron(), cache=False),
    )
    starts = {arg.offset for call in model.manifest.kernels for arg in call.args if arg.space == "weights"}
    assert len(starts) == 2
    x = np.random.default_rng(0).standard_normal((1, 8)).astype("float32")
    try:
        np.testing.assert_allclose(model(x), here(x), rtol=1e-5, atol=1e-6)
    finally:
        model.close()


def test_a_browser_without_webgpu_says_what_to_enable() -> None:
    try:
        program_of("chromium")
    except EnvironmentError_ as error:
        pytest.skip(str(error))
    with pytest.raises(InputError, match="--target wasm"):
        InProcess("chromium", compiled(perceptron()), flags=["--disable-gpu", "--disable-features=WebGPU"])


#: A GPU that notes the text of modules and does nothing; `FEATURES` stands for its features.
_NOTING = """
const known = { then: undefined, size: 2 ** 30, getMappedRange: () => new ArrayBuffer(2 ** 16) };
const quiet = () => new Proxy(function () {}, {
  get: (_, name) => (name in known ? known[name] : quiet()),
  apply: () => quiet(),
});
const texts = [], never = new Promise(() => {}), nothing = async () => null;
const limits = new Proxy({}, { get: () => 2 ** 30 }), features = new Set(FEATURES);
globalThis.GPUBufferUsage = {};
const device = { limits, features, lost: never, addEventListener() {}, pushErrorScope() {}, popErrorScope: nothing,
  createShaderModule: ({ code }) => texts.push(code), createComputePipelineAsync: async () => quiet(),
  createBuffer: quiet, createBindGroup: quiet };
const adapter = { limits, features, info: {}, requestDevice: async ({ requiredFeatures }) => {
  console.log(requiredFeatures.join(" "));
  return device;
} };
Object.defineProperty(globalThis, "navigator", { value: { gpu: { requestAdapter: async () => adapter } } });
await load();
console.log(JSON.stringify(texts));
"""


@needs_node
@pytest.mark.parametrize("features", [[], ["shader-f16"], ["shader-f16", "subgroups"]])
def test_kernels_take_the_features_of_the_gpu(tmp_path: Path, features: list[str]) -> None:
    model = compiled(halves())
    model.export_web(tmp_path)
    requested, texts = in_node(tmp_path, _NOTING.replace("FEATURES", json.dumps(features))).splitlines()
    assert requested.split() == features
    sources = [for_features(code.source, features) for code in codes_for(model.object_code)]
    assert json.loads(texts) == sources
    assert all(("enable f16;" in source) == ("shader-f16" in features) for source in sources)


def test_float16_in_chromium_is_as_on_the_processor(opened: Any) -> None:
    """SwiftShader has no shader-f16: elements are halves of words there."""
    model, here = opened(halves()), tw.compile(halves(), cache=False)
    x = np.random.default_rng(1).standard_normal((1, 3, 11, 13)).astype("float16")
    for got, want in zip(model.run({"x": x}), here.run({"x": x}), strict=True):
        np.testing.assert_allclose(got.astype("f4"), want.astype("f4"), rtol=2e-3, atol=1e-3)


def test_reductions_by_subgroups_in_chromium(opened: Any) -> None:
    """SwiftShader has subgroups of 4."""
    network, feeds = reductions()
    for got, want in zip(opened(network).run(feeds), tw.compile(network, cache=False).run(feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@needs_node
def test_node_without_webgpu_and_the_files(tmp_path: Path) -> None:
    written = compiled(perceptron()).export_web(tmp_path)
    names = {"model.mjs", "model.d.mts", "index.html", "model.webgpu.json", "model.bin"}
    assert {path.name for path in written} == names
    about = json.loads((tmp_path / "model.webgpu.json").read_text())
    assert len(about["pieces"][0]["steps"]) == len(about["kernels"]) == 1
    script = "await load().catch((error) => console.log(error instanceof TilewrightError, error.message));"
    said = in_node(tmp_path, script)
    assert said.startswith("true this engine has no WebGPU") and "chrome://flags/#enable-unsafe-webgpu" in said


def test_what_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="for the web compile for wasm or webgpu"):
        WebGpuModel.of(tw.compile(perceptron(), cache=False)).export_web(tmp_path)
    assert not list(tmp_path.iterdir())
