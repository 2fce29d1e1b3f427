"""Whole Keras models against Keras: shared and nested layers, operations, masks, states, old files, in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.keras.cases import archive_of, randomize
from tilewright.errors import UnsupportedError
from tilewright.frontend.keras import converts, from_keras, initial_states
from tilewright.relay import interpret, op

os.environ.setdefault("KERAS_BACKEND", "torch")
pytest.importorskip("h5py", reason="h5py, which reads the weights of Keras models, is not installed")
keras = pytest.importorskip("keras", reason="keras, which these numbers are compared with, is not installed")

from tests.frontend.keras.test_layers import check  # noqa: E402 -- it needs Keras as well

DEEPCUT = Path(__file__).resolve().parents[3].parent / "shared/models/real/keras/deepcut/deepcut_rebuilt.keras"


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=shape).astype("float32")


def test_shared_and_nested_layers(tmp_path: Path) -> None:
    x = keras.Input((6,), name="a")
    inner_input = keras.Input((6,))
    shared = keras.layers.Dense(6, activation="relu")
    inner = keras.Model(inner_input, shared(keras.layers.Dense(6)(inner_input)), name="inner")
    chain = keras.Sequential([keras.layers.Dense(5), keras.layers.BatchNormalization()], name="chain")
    twice = inner(inner(x))
    again = keras.layers.Dense(6, name="own")
    model = keras.Model(x, [chain(again(twice)), keras.layers.Add()([again(x), twice])])
    randomize(model)
    check(model, [normal(3, 6)], tmp_path)


def test_several_inputs_and_named_outputs(tmp_path: Path) -> None:
    a, b = keras.Input((4,), name="b_first"), keras.Input((4,), name="a_second")
    model = keras.Model([a, b], {"z": keras.layers.Subtract()([a, b]), "y": keras.layers.Dense(2)(a)})
    randomize(model)
    check(model, [normal(2, 4), normal(2, 4) + 1], tmp_path)


def test_whole_numbers_and_floats_are_promoted(tmp_path: Path) -> None:
    codes, x = keras.Input((3,), dtype="int64", name="codes"), keras.Input((4,), name="x")
    joined = keras.layers.Concatenate()([codes, x])
    model = keras.Model([codes, x], [joined, keras.layers.Dense(2)(codes), keras.layers.Dense(2)(joined)])
    randomize(model)
    check(model, [np.arange(6, dtype="int64").reshape(2, 3), normal(2, 4)], tmp_path)


def test_operations_in_the_graph(tmp_path: Path) -> None:
    x = keras.Input((4, 6), name="x")
    y = keras.ops.matmul(x, keras.ops.transpose(x, (0, 2, 1))) * 2.0 + 1
    y = keras.ops.softmax(y[:, 1:, ::2], axis=-1) - keras.ops.mean(x, axis=(1, 2), keepdims=True)
    y = keras.ops.concatenate([y, keras.ops.exp(-keras.ops.abs(y))], axis=1)
    y = keras.ops.reshape(y, (-1, 12)) @ np.linspace(-1, 1, 36).reshape(12, 3).astype("float32")
    check(
        keras.Model(x, [y, keras.ops.argmax(x, axis=-1), keras.ops.where(y > 0, y, 0.0)]), [normal(2, 4, 6)], tmp_path
    )


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN", "Bidirectional", "stack", "reverse"])
def test_masks_reach_recurrent_layers(kind: str, tmp_path: Path) -> None:
    x = keras.Input((7,), dtype="int32", name="x")
    y = keras.layers.Embedding(9, 5, mask_zero=True)(x)
    options = {"return_sequences": True, "return_state": kind == "LSTM"}
    if kind == "Bidirectional":
        y = keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True))(y)
    elif kind == "stack":
        cells = [keras.layers.GRUCell(4), keras.layers.LSTMCell(3)]
        y = keras.layers.RNN(cells, return_sequences=True)(y)
    elif kind == "reverse":
        y = keras.layers.GRU(4, go_backwards=True, return_sequences=True)(y)
    else:
        y = getattr(keras.layers, kind)(4, zero_output_for_mask=kind == "GRU", **options)(y)
    first = y[0] if isinstance(y, list | tuple) else y
    outs = [keras.layers.GlobalAveragePooling1D()(first), *(y if isinstance(y, list | tuple) else [y])]
    model = keras.Model(x, outs)
    randomize(model)
    tokens = np.array([[1, 0, 3, 4, 0, 0, 2], [0, 0, 0, 0, 0, 0, 0], [5, 6, 7, 8, 1, 2, 0]], "int32")
    check(model, [tokens], tmp_path)


def test_masks_reach_attention_and_joins(tmp_path: Path) -> None:
    x = keras.Input((5,), dtype="int32", name="x")
    y = keras.layers.Embedding(9, 6, mask_zero=True)(x)
    other = keras.layers.Masking(0.5)(keras.layers.Dense(6)(y))
    outs = [
        keras.layers.MultiHeadAttention(2, 3)(y, y, use_causal_mask=True),
        keras.layers.Attention()([y, other]), keras.layers.AdditiveAttention()([y, y]),
        keras.layers.Add()([y, other]),
        keras.layers.GlobalAveragePooling1D()(keras.layers.Concatenate(axis=1)([y, other])),
    ]  # fmt: skip
    model = keras.Model(x, outs)
    randomize(model)
    check(model, [np.array([[1, 2, 0, 4, 0], [3, 1, 1, 0, 0]], "int32")], tmp_path)


def test_states_are_inputs_and_outputs(tmp_path: Path) -> None:
    x = keras.Input(batch_shape=(2, 3, 4), name="x")
    model = keras.Model(x, keras.layers.LSTM(5, stateful=True, name="memory")(x))
    randomize(model)
    path = archive_of(model, tmp_path)
    mod, specs = from_keras(path)
    states = initial_states(path)
    assert [spec.name for spec in specs] == ["x", "memory/state_0", "memory/state_1"] and set(states) == {
        "memory/state_0", "memory/state_1"
    }  # fmt: skip
    data = normal(2, 3, 4)
    for _ in range(2):
        found: Any = interpret(mod, {"x": data, **states})
        np.testing.assert_allclose(found[0], keras.ops.convert_to_numpy(model(data)), atol=1e-5)
        states = {"memory/state_0": found[1], "memory/state_1": found[2]}


def test_old_files_agree(tmp_path: Path) -> None:
    x = keras.Input((8, 5), name="x")
    y = keras.layers.Bidirectional(keras.layers.GRU(4, return_sequences=True))(x)
    y = keras.layers.SeparableConv1D(3, 3)(keras.layers.BatchNormalization()(y))
    y = keras.layers.TimeDistributed(keras.layers.Dense(3))(y)
    y = keras.layers.MultiHeadAttention(2, 3)(y, y)
    model = keras.Model(x, keras.Sequential([keras.layers.LSTM(3), keras.layers.Dense(2)])(y))
    randomize(model)
    check(model, [normal(2, 8, 5)], tmp_path, suffix=".h5")


def test_quantized_layers_agree(tmp_path: Path) -> None:
    x = keras.Input((8,), name="x")
    y = keras.layers.Dense(16, activation="relu")(x)
    y = keras.layers.EinsumDense("ab,bc->ac", output_shape=5, bias_axes="c")(y)
    model = keras.Model(x, y)
    randomize(model)
    model.quantize("int8")
    check(model, [normal(4, 8)], tmp_path, 1e-4)


def test_models_in_memory_compile() -> None:
    model = keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(3, activation="tanh")])
    randomize(model)
    data = normal(2, 4)
    np.testing.assert_allclose(tw.compile(model)(data), keras.ops.convert_to_numpy(model(data)), atol=1e-5)


def test_any_batch_runs_on_one_executable(tmp_path: Path) -> None:
    model = keras.Sequential(
        [keras.Input((6, 6, 3), name="x"), keras.layers.Conv2D(4, 3), keras.layers.Flatten(), keras.layers.Dense(2)]
    )
    randomize(model)
    exe = tw.compile(archive_of(model, tmp_path))
    for batch in (1, 3):
        data = normal(batch, 6, 6, 3)
        np.testing.assert_allclose(exe(data), keras.ops.convert_to_numpy(model(data)), atol=1e-4)


def test_what_holds_code_is_refused(tmp_path: Path) -> None:
    x = keras.Input((4,), name="x")
    model = keras.Model(x, keras.layers.Lambda(lambda value: value + 1, output_shape=(4,), name="plus")(x))
    with pytest.raises(UnsupportedError, match="Lambda 'plus': a Lambda layer holds Python code"):
        from_keras(archive_of(model, tmp_path))


def test_custom_layers_need_a_converter(tmp_path: Path) -> None:
    @keras.saving.register_keras_serializable(package="mine")
    class Doubled(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            return inputs * 2

    x = keras.Input((4,), name="x")
    model = keras.Model(x, Doubled(name="twice")(x))
    path = archive_of(model, tmp_path)
    with pytest.raises(UnsupportedError, match="mine>Doubled 'twice': no converter for the layer"):
        from_keras(path)

    @converts("mine>Doubled", custom=True)
    def convert_doubled(layer: Any, inputs: Any) -> Any:
        return op.add(inputs, inputs)

    check(model, [normal(2, 4)], tmp_path)


def test_subclassed_models_are_refused(tmp_path: Path) -> None:
    @keras.saving.register_keras_serializable(package="mine")
    class Whole(keras.Model):
        def __init__(self, **more: Any) -> None:
            super().__init__(**more)
            self.dense = keras.layers.Dense(3)

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs)

    model = Whole()
    model(normal(2, 4))
    with pytest.raises(UnsupportedError, match="whose Python code is not in the file"):
        from_keras(archive_of(model, tmp_path))


@pytest.mark.skipif(not DEEPCUT.is_file(), reason="../shared/models/real/keras is absent")
def test_deepcut_agrees_with_keras() -> None:
    model = keras.models.load_model(DEEPCUT)
    rng = np.random.default_rng(0)
    inputs = [rng.integers(0, limit, (64, 21)).astype("float32") for limit in (178, 12)]
    wanted = keras.ops.convert_to_numpy(model(inputs))
    exe = tw.compile(str(DEEPCUT))
    found = exe.run({one.name: data for one, data in zip(model.inputs, inputs)})
    np.testing.assert_allclose(found[0], wanted, atol=1e-5)


def test_operations_in_an_old_file_beside_layers_of_the_same_names(tmp_path: Path) -> None:
    x = keras.Input((4,), name="x")
    gate = keras.ops.relu6(x + 3.0) * (1 / 6)
    model = keras.Model(x, keras.layers.Multiply()([keras.layers.Add()([x, gate]), gate]))
    check(model, [normal(2, 4)], tmp_path, suffix=".h5")


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_layers_of_the_applications(suffix: str, tmp_path: Path) -> None:
    convnext = pytest.importorskip("keras.src.applications.convnext", reason="this Keras has no ConvNeXt")
    inception = pytest.importorskip("keras.src.applications.inception_resnet_v2")
    x = keras.Input((5, 3))
    branch = convnext.LayerScale(0.5, 4)(keras.layers.Dense(4)(x))
    branch = convnext.StochasticDepth(0.3)(convnext.LayerScale(0.2, 4)(branch))
    past = keras.layers.Dense(4)(x)
    model = keras.Model(x, inception.CustomScaleLayer(0.17)([past, branch]))
    randomize(model)
    path = tmp_path / f"net{suffix}"
    model.save(path)
    data = normal(2, 5, 3)
    mod, _ = from_keras(path, {spec.name: data.shape for spec in from_keras(path)[1]})
    (found,) = interpret(mod, [data])
    np.testing.assert_allclose(found, np.asarray(model.predict(data, verbose=0)), rtol=1e-5, atol=1e-5)
