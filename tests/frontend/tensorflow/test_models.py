"""Whole SavedModels: the given one against its twin in ONNX, and those that TensorFlow writes against TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import InputError, UnsupportedError
from tilewright.frontend.tensorflow import from_tensorflow
from tilewright.relay import interpret

MODELS = Path(__file__).resolve().parents[3].parent / "shared/models/real"
PITCH = MODELS / "tf_savedmodel/basic_pitch/nmp"


@pytest.mark.long
@pytest.mark.skipif(not PITCH.is_dir(), reason="../shared/models/real/tf_savedmodel is absent")
def test_basic_pitch_agrees_with_its_twin_in_onnx() -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    x = np.random.default_rng(0).uniform(-1, 1, (1, 43844, 1)).astype("float32")
    session = onnxruntime.InferenceSession(str(MODELS / "onnx/basic_pitch/nmp.onnx"))
    wanted = session.run(None, {session.get_inputs()[0].name: x})
    exe = tw.compile(str(PITCH), input_shapes={"input_2": x.shape})
    for found in exe.run({"input_2": x}):
        assert min(np.abs(found - one).max() for one in wanted if one.shape == found.shape) < 5e-5


@pytest.fixture
def tf() -> Any:
    return pytest.importorskip(
        "tensorflow", reason="tensorflow, which these numbers are compared with, is not installed"
    )


def saved(tf: Any, folder: Path, function: Any, *specs: Any, **variables: Any) -> tuple[Any, str]:
    """A SavedModel of a function and its variables."""
    module = tf.Module()
    for name, value in variables.items():
        setattr(module, name, value)
    module.run = tf.function(function, input_signature=list(specs))
    path = str(folder / "saved")
    tf.saved_model.save(module, path, signatures=module.run)
    return module, path


def test_variables_functions_and_any_batch(tf: Any, tmp_path: Path) -> None:
    kernel = tf.Variable(np.random.default_rng(1).normal(size=(4, 3)).astype("float32"), name="kernel")
    other = tf.Variable(np.float32([1, 2, 3]), name="kernel")  # of the same name
    inner = tf.function(lambda x: tf.nn.relu(x @ kernel) + other)
    _, path = saved(
        tf, tmp_path, lambda x: {"y": inner(x), "sizes": tf.reshape(inner(x), [-1])},
        tf.TensorSpec([None, 4], tf.float32, name="x"), kernel=kernel, other=other,
    )  # fmt: skip
    exe = tw.compile(path)
    for batch in (1, 3):
        x = np.random.default_rng(2).normal(size=(batch, 4)).astype("float32")
        found = exe.run({"x": x})
        np.testing.assert_allclose(found[1], inner(tf.constant(x)), atol=1e-5)
        np.testing.assert_allclose(found[0], np.asarray(inner(tf.constant(x))).reshape(-1), atol=1e-5)


def test_recurrent_keras_layers_unroll(tf: Any, tmp_path: Path) -> None:
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    keras = pytest.importorskip("keras", reason="keras is not installed")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("Keras runs on another backend than TensorFlow")
    model = keras.Sequential([keras.Input((5, 4)), keras.layers.LSTM(3, return_sequences=True), keras.layers.GRU(2)])
    path = str(tmp_path / "saved")
    model.export(path, verbose=False)
    x = np.random.default_rng(2).normal(size=(2, 5, 4)).astype("float32")
    (name,) = [spec.name for spec in from_tensorflow(path)[1]]
    mod, _ = from_tensorflow(path, {name: x.shape})
    np.testing.assert_allclose(interpret(mod, {name: x})[0], model(x), atol=1e-5)


def test_what_nothing_reads_is_no_input(tf: Any) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, (2,), name="x")
        tf.compat.v1.placeholder(tf.variant, (), name="left_of_a_loop")
        tf.compat.v1.placeholder(tf.float32, None, name="left_of_it_too")
        tf.compat.v1.placeholder(tf.float32, (3,), name="training")
        tf.add(x, 1.0, name="y")
    mod, specs = from_tensorflow(graph.as_graph_def().SerializeToString())
    assert [spec.name for spec in specs] == ["x"]
    np.testing.assert_array_equal(interpret(mod, {"x": np.zeros(2, "float32")})[0], [1, 1])


def test_changed_variables_are_refused(tf: Any, tmp_path: Path) -> None:
    count = tf.Variable(0.0)

    def run(x: Any) -> Any:
        count.assign_add(1.0)
        return {"y": x + count}

    _, path = saved(tf, tmp_path, run, tf.TensorSpec([2], tf.float32, name="x"), count=count)
    with pytest.raises(UnsupportedError, match="it changes a variable while the model runs"):
        from_tensorflow(path)


def test_signatures_are_chosen_by_name(tf: Any, tmp_path: Path) -> None:
    _, path = saved(tf, tmp_path, lambda x: {"y": x + 1}, tf.TensorSpec([2], tf.float32, name="x"))
    with pytest.raises(InputError, match="has no signature 'other'; there are serving_default"):
        from_tensorflow(path, signature="other")


def test_a_keras_model_inside_of_a_module(tf: Any, tmp_path: Path) -> None:
    """Its variables are restored through others."""
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    keras = pytest.importorskip("keras", reason="keras is not installed")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("Keras runs on another backend than TensorFlow")
    model = keras.Sequential([keras.Input((5, 4)), keras.layers.GRU(3), keras.layers.Dense(2)])
    run = lambda x: {"y": model(x, training=False)}  # noqa: E731
    _, path = saved(tf, tmp_path, run, tf.TensorSpec([2, 5, 4], tf.float32, name="x"), model=model)
    x = np.random.default_rng(2).normal(size=(2, 5, 4)).astype("float32")
    np.testing.assert_allclose(interpret(from_tensorflow(path)[0], {"x": x})[0], model(x), atol=1e-5)


def test_a_loop_that_ends_when_its_data_say_so(tf: Any, tmp_path: Path) -> None:
    def run(x: Any) -> Any:
        total, at = tf.zeros([3]), tf.constant(0)
        while at < 4 and tf.reduce_sum(total) < 3.0:
            total += x[at]
            at += 1
        return {"y": total}

    _, path = saved(tf, tmp_path, run, tf.TensorSpec([4, 3], tf.float32, name="x"))
    mod, _ = from_tensorflow(path)
    for seed in range(3):
        x = np.random.default_rng(seed).uniform(size=(4, 3)).astype("float32")
        np.testing.assert_allclose(interpret(mod, {"x": x})[0], run(tf.constant(x))["y"], atol=1e-5)
