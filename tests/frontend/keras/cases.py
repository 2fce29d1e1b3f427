"""Cases of layers: by the layer's class, its settings and the shapes that it is called with; built where Keras is."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.frontend.builders.functions import ACTIVATIONS

IMAGE, SEQUENCE, VOLUME, VECTOR = (8, 9, 6), (7, 6), (5, 6, 7, 4), (10,)

#: (class, settings, shapes without the batch): one input each shape, several as a list.
Case = tuple[str, dict[str, Any], Sequence[tuple[int, ...]]]


def _each(name: str, shape: tuple[int, ...], *settings: dict[str, Any]) -> list[Case]:
    return [(name, one, [shape]) for one in settings or ({},)]


def _convolutions() -> list[Case]:
    found: list[Case] = []
    for axes, shape in ((1, SEQUENCE), (2, IMAGE), (3, VOLUME)):
        plain = {"filters": 4, "kernel_size": 3}
        more: list[dict[str, Any]] = [
            {}, {"padding": "same"}, {"strides": 2, "padding": "same"}, {"strides": 2},
            {"dilation_rate": 2, "padding": "same"}, {"groups": 2, "use_bias": False}, {"activation": "gelu"},
        ]  # fmt: skip
        found += _each(f"Conv{axes}D", shape, *({**plain, **one} for one in more))
        turned: list[dict[str, Any]] = [
            {}, {"padding": "same"}, {"strides": 2, "padding": "same"}, {"strides": 2},
            {"strides": 3, "kernel_size": 2},
            {"strides": 2, "padding": "same", "kernel_size": 4}, {"use_bias": False, "activation": "relu"},
        ]  # fmt: skip
        found += _each(f"Conv{axes}DTranspose", shape, *({**plain, **one} for one in turned))
    found += _each("Conv1D", SEQUENCE, {"filters": 4, "kernel_size": 3, "padding": "causal", "dilation_rate": 2})
    for axes, shape in ((1, SEQUENCE), (2, IMAGE)):
        for one in ({}, {"padding": "same"}, {"depth_multiplier": 2, "strides": 2}, {"use_bias": False}):
            found.append((f"DepthwiseConv{axes}D", {"kernel_size": 3, **one}, [shape]))
            found.append((f"SeparableConv{axes}D", {"filters": 5, "kernel_size": 3, **one}, [shape]))
    return found


def _pooling() -> list[Case]:
    found: list[Case] = []
    for axes, shape in ((1, SEQUENCE), (2, IMAGE), (3, VOLUME)):
        for kind in ("Max", "Average"):
            found += _each(
                f"{kind}Pooling{axes}D", shape, {"pool_size": 2}, {"pool_size": 3, "strides": 2, "padding": "same"},
                {"pool_size": 3, "strides": 1},
            )  # fmt: skip
            found += _each(f"Global{kind}Pooling{axes}D", shape, {}, {"keepdims": True})
            found += _each(f"Adaptive{kind}Pooling{axes}D", shape, {"output_size": 3})
        found += _each(f"ZeroPadding{axes}D", shape, {}, {"padding": 2})
        found += _each(f"Cropping{axes}D", shape, {}, {"cropping": 2})
        found += _each(f"UpSampling{axes}D", shape, {}, {"size": 3})
        found += _each(f"SpatialDropout{axes}D", shape, {"rate": 0.3})
    found += _each("ZeroPadding2D", IMAGE, {"padding": ((1, 2), (0, 3))})
    found += _each("Cropping2D", IMAGE, {"cropping": ((1, 2), (0, 3))})
    found += _each("UpSampling2D", IMAGE, {"interpolation": "bilinear"}, {"interpolation": "bicubic"})
    return found


def _core() -> list[Case]:
    activations = sorted(ACTIVATIONS)
    return [
        *_each("Activation", VECTOR, *({"activation": name} for name in activations)),
        *_each("Dense", VECTOR, {"units": 4}, {"units": 4, "use_bias": False, "activation": "tanh"}),
        *_each("Dense", SEQUENCE, {"units": 4, "activation": "softmax"}),
        *_each("EinsumDense", SEQUENCE, {"equation": "abc,cd->abd", "output_shape": (None, 5), "bias_axes": "d"}),
        *_each("EinsumDense", SEQUENCE, {"equation": "...x,xy->...y", "output_shape": 5}),
        *_each("EinsumDense", SEQUENCE, {"equation": "abc,cde->abde", "output_shape": (None, 2, 3), "bias_axes": "de"}),
        *_each("Masking", SEQUENCE), *_each("Identity", VECTOR), *_each("ActivityRegularization", VECTOR),
        *_each("Flatten", IMAGE), *_each("Reshape", IMAGE, {"target_shape": (4, -1)}),
        *_each("Permute", IMAGE, {"dims": (3, 1, 2)}), *_each("RepeatVector", VECTOR, {"n": 3}),
        *_each("ReLU", VECTOR, {}, {"max_value": 0.5, "negative_slope": 0.1, "threshold": 0.2}, {"threshold": 0.3}),
        *_each("LeakyReLU", VECTOR, {}, {"negative_slope": 0.1}), *_each("ELU", VECTOR, {}, {"alpha": 0.5}),
        *_each("PReLU", IMAGE, {}, {"shared_axes": [1, 2]}),
        *_each("Softmax", IMAGE, {}, {"axis": 1}, {"axis": [1, 2]}),
        *_each("Dropout", VECTOR, {"rate": 0.5}), *_each("AlphaDropout", VECTOR, {"rate": 0.5}),
        *_each("GaussianDropout", VECTOR, {"rate": 0.5}), *_each("GaussianNoise", VECTOR, {"stddev": 0.5}),
        *_each("BatchNormalization", IMAGE, {}, {"scale": False, "center": False}, {"axis": 1}, {"renorm": True}),
        *_each("LayerNormalization", IMAGE, {}, {"axis": [1, 3]}, {"scale": False}, {"rms_scaling": True}),
        *_each("RMSNormalization", IMAGE), *_each("UnitNormalization", IMAGE, {}, {"axis": [1, 2]}),
        *_each("GroupNormalization", IMAGE, {"groups": 3}, {"groups": -1}, {"groups": 2, "axis": 1, "scale": False}),
        *_each("Rescaling", IMAGE, {"scale": 0.1, "offset": 2.0}),
        *_each("CenterCrop", IMAGE, {"height": 5, "width": 4}),
        *_each("CenterCrop", IMAGE, {"height": 12, "width": 14}),
        *_each("Resizing", IMAGE, {"height": 5, "width": 12}, {"height": 5, "width": 12, "interpolation": "nearest"},
               {"height": 5, "width": 12, "interpolation": "bicubic"},
               {"height": 6, "width": 6, "crop_to_aspect_ratio": True},
               {"height": 5, "width": 12, "pad_to_aspect_ratio": True, "fill_value": 1.0},
               {"height": 5, "width": 4, "antialias": True},
               {"height": 4, "width": 3, "interpolation": "lanczos3"},
               {"height": 12, "width": 5, "interpolation": "lanczos5", "antialias": True},
               {"height": 4, "width": 3, "interpolation": "area"}, {"height": 12, "width": 5, "interpolation": "area"}),
        *_each("AutoContrast", IMAGE), *_each("STFTSpectrogram", (64, 2), {"frame_length": 16, "frame_step": 8},
               {"frame_length": 16, "mode": "psd", "expand_dims": True}, {"frame_length": 16, "mode": "angle"},
               {"frame_length": 16, "mode": "stft"}, {"frame_length": 16, "mode": "magnitude"}),
        *_each("MelSpectrogram", (400,),
               {"fft_length": 64, "sequence_stride": 32, "sequence_length": 48, "num_mel_bins": 8}),
        *_each("Normalization", VECTOR, {"mean": 0.3, "variance": 2.0}, {"mean": 0.3, "variance": 2.0, "invert": True}),
        *_each("Normalization", VECTOR, {}), *_each("Discretization", VECTOR, {"bin_boundaries": [-0.5, 0.1, 0.4]},
               {"bin_boundaries": [-0.5, 0.1], "output_mode": "one_hot"},
               {"bin_boundaries": [-0.5, 0.1], "output_mode": "count"}),
        *_each("SpectralNormalization", VECTOR, {"layer": ("Dense", {"units": 3})}),
        *_each("TimeDistributed", SEQUENCE, {"layer": ("Dense", {"units": 3})}),
        *_each("TimeDistributed", (3, *IMAGE), {"layer": ("Conv2D", {"filters": 3, "kernel_size": 3})}),
        *_each("Pipeline", VECTOR, {"layers": [("Rescaling", {"scale": 2.0}), ("ReLU", {})]}),
    ]  # fmt: skip


def _augmentation() -> list[Case]:
    settings: dict[str, dict[str, Any]] = {
        "AugMix": {}, "CutMix": {}, "MixUp": {}, "RandAugment": {},
        "RandomBrightness": {"factor": 0.2},
        "RandomColorDegeneration": {"factor": 0.2}, "RandomColorJitter": {}, "RandomContrast": {"factor": 0.2},
        "RandomCrop": {"height": 4, "width": 4}, "RandomElasticTransform": {}, "RandomErasing": {}, "RandomFlip": {},
        "RandomGaussianBlur": {}, "RandomGrayscale": {}, "RandomHue": {"factor": 0.2}, "RandomInvert": {},
        "RandomPerspective": {}, "RandomPosterization": {"factor": 4}, "RandomRotation": {"factor": 0.2},
        "RandomSaturation": {"factor": 0.2}, "RandomSharpness": {"factor": 0.2}, "RandomShear": {},
        "RandomTranslation": {"height_factor": 0.2, "width_factor": 0.2}, "RandomZoom": {"height_factor": 0.2},
        "Solarization": {}, "ContrastLimitedAdaptiveHistogramEqualization": {},
        "MaxNumBoundingBoxes": {"max_number": 5},
    }  # fmt: skip
    found: list[Case] = [(name, one, [(8, 9, 3)]) for name, one in settings.items()]
    # in inference it gives the very tensor that it was given, which Keras takes for a circle where it stands alone
    alone = {"layers": [("Equalization", {}), ("Rescaling", {"scale": 2.0})]}
    return [*found, ("Pipeline", alone, [(8, 9, 3)])]


def _recurrent() -> list[Case]:
    found: list[Case] = []
    for kind in ("LSTM", "GRU", "SimpleRNN"):
        more: list[dict[str, Any]] = [
            {}, {"return_sequences": True}, {"return_sequences": True, "return_state": True, "go_backwards": True},
            {"activation": "relu", "use_bias": False}, {"activation": "gelu", "return_sequences": True},
        ]  # fmt: skip
        more += [{"reset_after": False}, {"recurrent_activation": "hard_sigmoid"}] if kind == "GRU" else []
        found += _each(kind, SEQUENCE, *({"units": 5, **one} for one in more))
        for mode in ("concat", "sum", "mul", "ave", None):
            found += _each(
                "Bidirectional", SEQUENCE, {"layer": (kind, {"units": 4, "return_sequences": True}), "merge_mode": mode}
            )
        found += _each("Bidirectional", SEQUENCE, {"layer": (kind, {"units": 4, "return_state": True})})
        found += _each("RNN", SEQUENCE, {"cell": (f"{kind}Cell", {"units": 4}), "return_sequences": True})
    stack = {"cells": [("LSTMCell", {"units": 4}), ("GRUCell", {"units": 3})]}
    found += _each("RNN", SEQUENCE, {"cell": ("StackedRNNCells", stack), "return_state": True})
    for axes, shape in ((1, (4, *SEQUENCE)), (2, (3, 5, 6, 2)), (3, (2, 4, 3, 5, 2))):
        found += _each(
            f"ConvLSTM{axes}D", shape, {"filters": 3, "kernel_size": 3}, {"filters": 3, "kernel_size": 3,
            "return_sequences": True, "padding": "same", "strides": 2, "recurrent_activation": "hard_sigmoid"},
        )  # fmt: skip
    return found


def _joining() -> list[Case]:
    two = [SEQUENCE, SEQUENCE]
    found: list[Case] = [(kind, {}, two) for kind in ("Subtract",)]
    found += [
        (kind, {}, [*two, SEQUENCE]) for kind in ("Add", "Multiply", "Average", "Maximum", "Minimum", "Concatenate")
    ]
    found += [("Add", {}, [SEQUENCE, (6,)]), ("Concatenate", {"axis": 1}, [SEQUENCE, (3, 6)])]
    found += [
        ("Dot", {"axes": 2}, two),
        ("Dot", {"axes": (1, 2), "normalize": True}, [(4, 3), (5, 4)]),
        ("Dot", {"axes": 1}, [(4,), (4,)]),
    ]
    for kind in ("Attention", "AdditiveAttention"):
        found += [(kind, {}, two), (kind, {"use_scale": False}, [SEQUENCE, (4, 6), (4, 6)])]
    found += [("Attention", {"use_scale": True, "score_mode": "concat"}, two)]
    heads: dict[str, Any] = {"num_heads": 2, "key_dim": 3}
    found += [("MultiHeadAttention", one, two) for one in (heads, {**heads, "value_dim": 5, "use_bias": False})]
    found += [("MultiHeadAttention", {**heads, "output_shape": 7}, [SEQUENCE, (4, 6), (4, 6)])]
    found += [("MultiHeadAttention", {**heads, "attention_axes": (2,)}, [(3, *SEQUENCE)] * 2)]
    grouped = {"head_dim": 3, "num_query_heads": 4, "num_key_value_heads": 2}
    return [*found, ("GroupQueryAttention", grouped, two), ("GroupQueryAttention", {**grouped, "use_gate": True}, two)]


#: Every layer but those below, which take whole numbers.
CASES: list[Case] = [*_convolutions(), *_pooling(), *_core(), *_augmentation(), *_recurrent(), *_joining()]
INTEGER_CASES: list[Case] = [
    ("Embedding", {"input_dim": 10, "output_dim": 4}, [(5,)]),
    ("Embedding", {"input_dim": 10, "output_dim": 4, "mask_zero": True}, [(5,)]),
    ("ReversibleEmbedding", {"input_dim": 10, "output_dim": 4}, [(5,)]),
    ("CategoryEncoding", {"num_tokens": 10}, [(5,)]),
    ("CategoryEncoding", {"num_tokens": 10, "output_mode": "one_hot"}, [(1,)]),
    ("CategoryEncoding", {"num_tokens": 10, "output_mode": "count"}, [(5,)]),
    ("IntegerLookup", {"vocabulary": [7, 3, 5]}, [(5,)]),
    ("IntegerLookup", {"vocabulary": [7, 3, 5, 0, 1, 2, 4, 6, 9, 8], "output_mode": "multi_hot", "num_oov_indices": 0},
     [(5,)]),
    ("IntegerLookup", {"vocabulary": [7, 3, 5], "mask_token": 0, "invert": True}, [(5,)]),
    ("IntegerLookup", {"vocabulary": [7, 3, 5], "num_oov_indices": 3}, [(5,)]),
    ("Hashing", {"num_bins": 7}, [(5,)]),
    ("Hashing", {"num_bins": 7, "mask_value": 3, "salt": [5, -6], "output_mode": "one_hot"}, [(5,)]),
    ("HashedCrossing", {"num_bins": 1000}, [(1,), (1,)]),
    ("StringLookup", {"vocabulary": ["a", "b", "cat"], "invert": True, "mask_token": ""}, [(5,)]),
]  # fmt: skip

_WORDS = {"vocabulary": ["green", "eggs", "a", "ham"]}
TEXT_CASES: list[Case] = [
    ("Hashing", {"num_bins": 100, "salt": 3}, [(5,)]),
    ("Hashing", {"num_bins": 9, "mask_value": "ham", "output_mode": "count"}, [(5,)]),
    ("HashedCrossing", {"num_bins": 9, "output_mode": "one_hot"}, [(1,), (1,)]),
    ("StringLookup", _WORDS, [(5,)]),
    ("StringLookup", {**_WORDS, "num_oov_indices": 3, "mask_token": "none"}, [(5,)]),
    ("StringLookup", {**_WORDS, "num_oov_indices": 2, "salt": 7, "output_mode": "multi_hot"}, [(5,)]),
    ("StringLookup", {**_WORDS, "output_mode": "one_hot", "max_tokens": 9, "pad_to_max_tokens": True}, [(5,)]),
    ("StringLookup", {**_WORDS, "output_mode": "tf_idf", "idf_weights": [0.5, 2.0, 1.0, 3.0]}, [(5,)]),
    ("TextVectorization", _WORDS, [(1,)]),
    ("TextVectorization", {**_WORDS, "output_sequence_length": 4, "standardize": "lower"}, [(1,)]),
    ("TextVectorization", {**_WORDS, "output_mode": "count", "ngrams": 2}, [()]),
    ("TextVectorization", {**_WORDS, "output_mode": "multi_hot", "split": "character"}, [()]),
    ("TextVectorization", {**_WORDS, "output_mode": "tf_idf", "idf_weights": [0.5, 2.0, 1.0, 3.0]}, [()]),
    ("TextVectorization", {**_WORDS, "split": None, "standardize": None, "output_sequence_length": 7}, [(5,)]),
]


def label_of(case: Case) -> str:
    """A short name of a case."""
    name, settings, shapes = case
    return f"{name}({', '.join(f'{k}={v}' for k, v in settings.items())})" + (
        f" of {len(shapes)}" if len(shapes) > 1 else ""
    )


def build_layer(keras: Any, name: str, settings: dict[str, Any], **more: Any) -> Any:
    """The layer of a case."""
    made = {key: _build_value(keras, value) for key, value in settings.items()}
    return getattr(keras.layers, name)(**made, **more)


def _build_value(keras: Any, value: Any) -> Any:
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict):
        return build_layer(keras, value[0], value[1])
    if isinstance(value, list) and value and isinstance(value[0], tuple) and isinstance(value[0][-1], dict):
        return [_build_value(keras, one) for one in value]
    return value


def build_model(keras: Any, case: Case, dtype: str = "float32", **more: Any) -> Any:
    """A functional model of the layer alone, with random weights."""
    name, settings, shapes = case
    layer = build_layer(keras, name, settings, **more)
    inputs = [keras.Input(shape, dtype=dtype, name=f"x{position}") for position, shape in enumerate(shapes)]
    if name == "Normalization" and "mean" not in settings:
        layer.adapt(np.random.default_rng(1).normal(1, 2, (16, *shapes[0])).astype("float32"))
    separate = name in ("MultiHeadAttention", "GroupQueryAttention")
    result = layer(*inputs) if separate or len(inputs) == 1 else layer(inputs)
    model = keras.Model(inputs, result)
    randomize(model)
    return model


def randomize(model: Any) -> None:
    """Weights that are neither zero nor one, variances positive."""
    rng = np.random.default_rng(5)
    for weight in model.weights:
        if "seed" in weight.path or not str(weight.dtype).startswith(("float", "bfloat")):
            continue
        if (
            "normalization" in weight.path
            and "Normalization" in type(model.layers[-1]).__name__
            and weight.path.split("/")[-1] in ("mean", "variance")
        ):
            continue
        values = rng.normal(0, 0.4, weight.shape)
        positive = any(word in weight.path for word in ("variance", "gamma", "stddev"))
        weight.assign((np.abs(values) + 0.5 if positive else values).astype("float32"))


def archive_of(model: Any, tmp: Any, suffix: str = ".keras") -> str:
    """The path of the saved model."""
    path = tmp / f"model{suffix}"
    model.save(path)
    return str(path)


def random_inputs(model: Any, batch: int = 2, most: int = 9) -> list[np.ndarray]:
    """An array for each input of a model."""
    rng = np.random.default_rng(9)
    arrays = []
    for one in model.inputs:
        shape = [extent if extent is not None else batch for extent in one.shape]
        if one.dtype == "string":
            words = np.array(
                ["ham", "Eggs & ham!", "eggs", "a  \u00c4pfel, green", "", "so it is: a-b\tHAM ham"], object
            )
            arrays.append(rng.choice(words, shape))
        elif str(one.dtype).startswith("int"):
            arrays.append(rng.integers(0, most + 1, shape).astype(one.dtype))
        else:
            arrays.append(rng.normal(0, 1, shape).astype(str(one.dtype)))
    return arrays


def rewritten(path: str, change: Callable[[str, bytes], bytes | None]) -> bytes:
    """The archive at a path with each entry as `change` makes it; one that becomes None is left out."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(buffer, "w") as target:
        for name in source.namelist():
            data = change(name, source.read(name))
            if data is not None:
                target.writestr(name, data)
    return buffer.getvalue()
