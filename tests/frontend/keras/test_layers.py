"""Each layer of `keras.layers` against Keras itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontend.keras.cases import (
    CASES,
    INTEGER_CASES,
    TEXT_CASES,
    Case,
    archive_of,
    build_model,
    label_of,
    random_inputs,
)
from tilewright.frontend.keras import from_keras
from tilewright.relay import interpret

os.environ.setdefault("KERAS_BACKEND", "torch")
pytest.importorskip("h5py", reason="h5py, which reads the weights of Keras models, is not installed")
keras = pytest.importorskip("keras", reason="keras, which these numbers are compared with, is not installed")

#: What Keras computes on PyTorch in another way than on TensorFlow, which we follow.
_OTHER_ON_TORCH = (
    "bicubic",
    "interpolation=lanczos",
    "interpolation=area",
    "ContrastLimited",
    "AveragePooling2D(pool_size=3, strides=2",
    "AveragePooling3D(pool_size=3, strides=2",
)


def check(model: Any, inputs: list[np.ndarray], tmp_path: Path, atol: float = 1e-4, suffix: str = ".keras") -> None:
    """The saved model gives what Keras gives."""
    given = [keras.ops.convert_to_tensor(one) if one.dtype == object else one for one in inputs]
    wanted = model(given if len(inputs) > 1 else given[0], training=False)
    wanted = [keras.ops.convert_to_numpy(one) for one in keras.tree.flatten(wanted)]
    path = archive_of(model, tmp_path, suffix)
    shapes = {one.name: array.shape for one, array in zip(model.inputs, inputs)}
    mod, specs = from_keras(path, shapes)
    found: Any = interpret(mod, {spec.name: array for spec, array in zip(specs, inputs)})
    found = found if isinstance(found, list | tuple) else [found]
    assert len(found) == len(wanted)
    for position, (ours, theirs) in enumerate(zip(found, wanted)):
        assert np.asarray(ours).dtype.name == theirs.dtype.name
        if theirs.dtype == object:
            assert np.asarray(ours).tolist() == np.char.decode(theirs.astype("S"), "utf-8").tolist()
            continue
        left, right = np.asarray(ours, "float64"), np.asarray(theirs, "float64")
        np.testing.assert_allclose(left, right, rtol=max(1e-4, atol), atol=atol, err_msg=f"result {position}")


@pytest.mark.parametrize("case", CASES, ids=label_of)
def test_layers_agree_with_keras(case: Case, tmp_path: Path) -> None:
    if keras.backend.backend() == "torch" and any(word in label_of(case) for word in _OTHER_ON_TORCH):
        pytest.skip("Keras on PyTorch differs from Keras on TensorFlow here")
    model = build_model(keras, case)
    exact = keras.backend.backend() == "tensorflow" or "bicubic" not in label_of(case)  # TensorFlow's is a table
    check(model, random_inputs(model), tmp_path, 1e-4 if exact else 2e-3)


@pytest.mark.parametrize("case", INTEGER_CASES, ids=label_of)
def test_layers_of_whole_numbers_agree_with_keras(case: Case, tmp_path: Path) -> None:
    try:
        model = build_model(keras, case, "int64")
    except ImportError as error:
        pytest.skip(f"Keras cannot make the layer on this backend: {error}")
    check(model, random_inputs(model), tmp_path)


CHANNELS_FIRST: list[Case] = [
    ("Conv2D", {"filters": 4, "kernel_size": 3, "padding": "same", "strides": 2}, [(6, 8, 9)]),
    ("Conv2DTranspose", {"filters": 4, "kernel_size": 3, "strides": 2, "padding": "same"}, [(6, 8, 9)]),
    ("DepthwiseConv2D", {"kernel_size": 3}, [(6, 8, 9)]),
    ("SeparableConv1D", {"filters": 4, "kernel_size": 3}, [(6, 8)]),
    ("MaxPooling2D", {"pool_size": 2}, [(6, 8, 9)]),
    ("GlobalAveragePooling1D", {}, [(6, 8)]),
    ("UpSampling2D", {"size": 2, "interpolation": "bilinear"}, [(6, 8, 9)]),
    ("ZeroPadding2D", {"padding": 1}, [(6, 8, 9)]),
    ("Cropping2D", {"cropping": 1}, [(6, 8, 9)]),
    ("Flatten", {}, [(6, 8, 9)]),
    ("AdaptiveMaxPooling2D", {"output_size": 3}, [(6, 8, 9)]),
]


@pytest.mark.parametrize("case", CHANNELS_FIRST, ids=label_of)
def test_channels_first_agrees_with_keras(case: Case, tmp_path: Path) -> None:
    try:
        model = build_model(keras, case, data_format="channels_first")
        inputs = random_inputs(model)
        model(inputs[0])
    except Exception as error:
        pytest.skip(f"Keras does not run it on this backend: {error}")
    check(model, inputs, tmp_path)


POLICIES: list[Case] = [
    ("Dense", {"units": 4, "activation": "gelu"}, [(10,)]),
    ("Conv2D", {"filters": 4, "kernel_size": 3}, [(8, 9, 6)]),
    ("BatchNormalization", {}, [(8, 9, 6)]),
    ("LayerNormalization", {}, [(8, 6)]),
    ("LSTM", {"units": 4}, [(5, 6)]),
    ("MultiHeadAttention", {"num_heads": 2, "key_dim": 3}, [(5, 6), (5, 6)]),
    ("GlobalAveragePooling2D", {}, [(8, 9, 6)]),
]


@pytest.mark.parametrize("policy", ["float64", "float16", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("case", POLICIES, ids=label_of)
def test_types_of_layers_agree_with_keras(case: Case, policy: str, tmp_path: Path) -> None:
    model = build_model(keras, case, dtype="float64" if policy == "float64" else "float32")
    layer = keras.layers.deserialize(
        {**(described := keras.layers.serialize(model.layers[-1])), "config": {**described["config"], "dtype": policy}}
    )
    inputs = [keras.Input(one.shape[1:], dtype=one.dtype, name=one.name) for one in model.inputs]
    try:
        fresh = keras.Model(inputs, layer(*inputs))
    except NotImplementedError as error:
        pytest.skip(f"Keras does not make it on this backend: {error}")
    fresh.set_weights(model.get_weights())
    tolerance = {"float64": 1e-6, "float16": 2e-2, "mixed_float16": 2e-2, "mixed_bfloat16": 1e-1}[policy]
    check(fresh, random_inputs(fresh), tmp_path, tolerance)


@pytest.mark.parametrize("case", TEXT_CASES, ids=label_of)
def test_layers_of_text_agree_with_keras(case: Case, tmp_path: Path) -> None:
    if keras.backend.backend() != "tensorflow":
        pytest.skip("text goes through Keras's models on the backend of TensorFlow alone")
    model = build_model(keras, case, "string")
    check(model, random_inputs(model), tmp_path)
