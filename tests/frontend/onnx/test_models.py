"""Whole models: the five trained ones and some of the benchmark networks, evaluated in NumPy, against onnxruntime."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.oracles import exact_outputs, open_session
from tilewright.frontend.onnx import from_onnx
from tilewright.relay.interpreter.interpreter import interpret

MODELS = Path(__file__).resolve().parents[4] / "shared" / "models"
REAL: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "ppocr_cls": ("ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    "ppocrv4_det": ("ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 96, 160)}),
    "basic_pitch": ("nmp.onnx", {"serving_default_input_2:0": (1, 43844, 1)}),
    "magika": ("model.onnx", {"bytes": (1, 2048)}),
    "aecmos": ("Run_1663829550_Stage_0.onnx", {"input": (1, 3, 60, 160)}),
}


def compare(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]] | None, bound: float) -> None:
    """Our outputs on fresh random inputs are those of onnxruntime to within `bound` of the largest value."""
    module, specs = from_onnx(model, shapes)
    rng = np.random.default_rng()
    feeds: dict[str, Any] = {}
    for spec in specs:
        values = rng.integers(0, 256, spec.shape) if spec.dtype.is_int else rng.standard_normal(spec.shape)
        feeds[spec.name] = values.astype(spec.dtype.numpy)
    expected = open_session(model).run(None, feeds)
    for ours, theirs in zip(interpret(module, feeds), expected, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        assert np.abs(ours - theirs).max() <= bound * np.abs(theirs).max()


def before_the_last_sigmoid(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model up to the logits: on noise all probabilities are near zero, where onnxruntime's sigmoid is coarse."""
    last = model.graph.node[-1]
    assert last.op_type == "Sigmoid"
    model.graph.output[0].name = last.input[0]
    del model.graph.node[-1]
    return model


@pytest.mark.parametrize("name", list(REAL))
def test_a_trained_model_agrees_with_onnxruntime(name: str) -> None:
    file, shapes = REAL[name]
    path = MODELS / "real" / "onnx" / name / file
    if not path.is_file():
        pytest.skip(f"the trained model {path} is not there")
    model = onnx.load(path)
    # NumPy adds the hundreds of taps of basic_pitch's kernels one by one, and the model takes the logarithm of that.
    bound = 1e-3 if name == "basic_pitch" else 1e-4
    compare(before_the_last_sigmoid(model) if name == "ppocrv4_det" else model, shapes, bound)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["mlp", "dqn", "squeezenet1_1", "mobilenet_v2", "lstm_lm"])
def test_a_benchmark_network_agrees_with_onnxruntime(name: str, tmp_path: Path) -> None:
    script = MODELS / "nets" / "fill.py"
    if not script.is_file():
        pytest.skip(f"the script {script} that makes the networks is not there")
    path = tmp_path / f"{name}.onnx"
    runpy.run_path(str(script))["fill"](name, str(path))
    compare(onnx.load(path), None, 3e-4 if name == "lstm_lm" else 1e-4)


def real_model(name: str) -> Path:
    """The file of a trained model; the test is skipped where it is absent."""
    paths = sorted((MODELS / "real" / "onnx" / name).glob("*.onnx"))
    if not paths:
        pytest.skip(f"the trained model {name} is not there")
    return paths[0]


def test_silero_carries_its_state_over_a_hundred_chunks() -> None:
    import tilewright as tw

    path = real_model("silero_vad")
    reference = open_session(path)
    compiled = tw.compile(path, input_shapes={"input": (1, 512), "state": (2, 1, 128)}, threads=1, cache=False)
    rng = np.random.default_rng(0)
    states = [np.zeros((2, 1, 128), np.float32)] * 2
    for chunk in range(100):
        sound = (rng.standard_normal((1, 512)) * 0.3 * np.sin(chunk / 5)).astype(np.float32)
        feeds = {"input": sound, "sr": np.array(16000, np.int64)}
        theirs = reference.run(None, {**feeds, "state": states[0]})
        ours = compiled.run({**feeds, "state": states[1]})
        np.testing.assert_allclose(ours[0], theirs[0], atol=2e-4)
        states = [theirs[1], ours[1]]
    np.testing.assert_allclose(states[1], states[0], atol=2e-4)


def test_silero_of_open_sizes() -> None:
    """Any number of samples that is one step of its recurrence, any batch; the model itself takes no other."""
    import tilewright as tw
    from tilewright.errors import InputError

    path = real_model("silero_vad")
    reference = open_session(path)
    compiled = tw.compile(path, threads=1)
    rng = np.random.default_rng(1)

    def feeds(rate: int, batch: int, samples: int) -> dict[str, np.ndarray]:
        sound = (rng.standard_normal((batch, samples)) * 0.3).astype(np.float32)
        state = rng.standard_normal((2, batch, 128)).astype(np.float32) / 4
        return {"input": sound, "state": state, "sr": np.array(rate, np.int64)}

    for rate, batch, samples in ((16000, 1, 512), (16000, 3, 576), (8000, 2, 256), (16000, 2, 700), (8000, 1, 100)):
        given = feeds(rate, batch, samples)
        for ours, theirs in zip(compiled.run(given), reference.run(None, given), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-4)
    with pytest.raises(InputError, match=r"decoder/rnn/LSTM.*it takes \[steps, batch, width\]"):
        compiled.run(feeds(16000, 1, 1024))
    with pytest.raises(InputError, match=r"state_1.*input_0.*must be equal: .*LSTM needs it"):
        compiled.run({**feeds(16000, 2, 512), "state": np.zeros((2, 3, 128), np.float32)})


@pytest.mark.long
def test_smart_turn_matches_exact_sums_and_onnxruntime_without_its_fusions() -> None:
    """The quantized graph stays as it is where onnxruntime keeps it; its fused kernels round elsewhere."""
    import tilewright as tw

    path = real_model("smart_turn_v3_int8")
    feeds = {"input_features": np.random.default_rng(0).standard_normal((1, 80, 800)).astype(np.float32)}
    compiled = tw.compile(path, input_shapes={"input_features": (1, 80, 800)}, threads=1, cache=False)
    ours = compiled.run(feeds)[0]
    np.testing.assert_allclose(ours, exact_outputs(onnx.load(path), feeds)[0], atol=2e-3)
    plain, fused = (open_session(path, optimized).run(None, feeds)[0] for optimized in (False, True))
    np.testing.assert_allclose(ours, plain, atol=max(2e-3, 2 * np.abs(plain - fused).max()))
    np.testing.assert_allclose(ours, fused, atol=1e-2)
