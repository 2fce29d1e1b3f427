"""Random functional Keras models, as a user's unseen one would be, in every format that Keras and TensorFlow write.

    KERAS_BACKEND=tensorflow python -m bench.frontends.random_keras [--seeds 0 50] [--formats keras,saved,…] [--compile]
        [--log FILE] [--seconds 300]

A model grows from an image: layers and operations with random settings over images, sequences and vectors, some of them
joined again where the shapes allow it. Formats and comparisons are those of `keras_networks`; of integers a few quanta
between the kernels and ours would be a difference too. Needs TensorFlow and Keras.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.frontends.compared import BOUND, compare_cases, options
from bench.frontends.keras_networks import FORMATS, difference, images

import keras  # isort: skip  (behind what chooses its backend)
import numpy as np  # isort: skip
from keras import layers, ops  # isort: skip

_ACTIVATIONS = (
    "relu", "relu6", "sigmoid", "tanh", "elu", "selu", "gelu", "silu", "softplus", "softsign", "hard_sigmoid",
    "hard_silu", "leaky_relu", "mish", "exponential", "linear", "celu", "log_sigmoid",
)  # fmt: skip

Make = Callable[["Draw", Any], Any]


class Draw:
    """Random choices of one model."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def of(self, choices: Sequence[Any]) -> Any:
        """One of several."""
        return choices[int(self.rng.integers(len(choices)))]

    def yes(self, share: float = 0.5) -> bool:
        """True with this probability."""
        return bool(self.rng.random() < share)

    def activation(self) -> str:
        """An activation by name."""
        return str(self.of(_ACTIVATIONS))


def _convolved(draw: Draw, x: Any) -> Any:
    channels, strides = x.shape[-1], draw.of([1, 1, 2])
    groups = draw.of([1, 1, 2]) if channels % 2 == 0 else 1
    dilation = draw.of([1, 2]) if strides == 1 else 1
    return layers.Conv2D(
        draw.of([4, 6, 8]), draw.of([1, 3, (1, 3), (3, 2), 5]), strides, draw.of(["same", "valid"]), groups=groups,
        dilation_rate=dilation, activation=draw.activation(), use_bias=draw.yes(),
    )(x)  # fmt: skip


def _depthwise(draw: Draw, x: Any) -> Any:
    kind = draw.of([layers.DepthwiseConv2D, functools.partial(layers.SeparableConv2D, draw.of([4, 5]))])
    return kind(
        draw.of([2, 3]), strides=draw.of([1, 2]), padding=draw.of(["same", "valid"]), depth_multiplier=draw.of([1, 2]),
        activation=draw.activation(),
    )(x)  # fmt: skip


def _pooled(draw: Draw, x: Any) -> Any:
    kind = draw.of([layers.MaxPooling2D, layers.AveragePooling2D])
    return kind(draw.of([2, 3]), draw.of([1, 2]), draw.of(["same", "valid"]))(x)


def _normalized(draw: Draw, x: Any) -> Any:
    kinds = [layers.BatchNormalization, layers.LayerNormalization, layers.UnitNormalization, layers.RMSNormalization]
    if len(x.shape) == 4 and x.shape[-1] % 2 == 0:
        kinds.append(functools.partial(layers.GroupNormalization, 2))
    return draw.of(kinds)()(x)


def _activated(draw: Draw, x: Any) -> Any:
    return draw.of([
        lambda: layers.Activation(draw.activation())(x), lambda: layers.PReLU()(x), lambda: layers.Softmax()(x),
        lambda: layers.LeakyReLU(0.2)(x), lambda: layers.ReLU(draw.of([None, 6.0]), 0.1, 0.05)(x),
        lambda: ops.clip(x, -1.0, 1.5), lambda: ops.abs(x), lambda: ops.sqrt(ops.square(x) + 0.1),
        lambda: ops.sin(x) * 0.7, lambda: x / (1.0 + ops.exp(-x)), lambda: ops.maximum(x, -x * 0.3),
        lambda: ops.where(x > 0.2, x, 0.2 - x), lambda: ops.log(ops.relu(x) + 1.5), lambda: ops.cumsum(x, axis=1) * 0.2,
        lambda: ops.flip(x, axis=1), lambda: ops.roll(x, 1, axis=-1), lambda: x - ops.mean(x, axis=-1, keepdims=True),
    ])()  # fmt: skip


def _resized(draw: Draw, x: Any) -> Any:
    height, width = x.shape[1:3]
    return draw.of([
        lambda: layers.UpSampling2D(2, interpolation=draw.of(["nearest", "bilinear"]))(x),
        lambda: layers.Resizing(height + 1, max(width - 2, 2), interpolation=draw.of(["bilinear", "nearest"]))(x),
        lambda: layers.ZeroPadding2D(((1, 0), (2, 1)))(x), lambda: layers.Permute((2, 1, 3))(x),
        lambda: layers.Cropping2D(((1, 0), (0, 1)))(x), lambda: x[:, ::2, 1:], lambda: x[:, :, ::-1],
        lambda: ops.pad(x, ((0, 0), (1, 1), (0, 2), (0, 0)), mode=draw.of(["constant", "reflect", "symmetric"])),
        lambda: layers.Conv2DTranspose(4, draw.of([2, 3]), draw.of([1, 2]), draw.of(["same", "valid"]))(x),
        lambda: ops.concatenate(ops.split(x, 2, axis=-1)[::-1], axis=1) if x.shape[-1] % 2 == 0 else x,
    ])()  # fmt: skip


def _gated(draw: Draw, x: Any) -> Any:
    """Squeeze and excitation."""
    pooled = draw.of([layers.GlobalAveragePooling2D, layers.GlobalMaxPooling2D])(keepdims=True)(x)
    return layers.Multiply()([x, layers.Dense(x.shape[-1], activation=draw.of(["sigmoid", "hard_sigmoid"]))(pooled)])


def _recurrent(draw: Draw, x: Any) -> Any:
    kind = draw.of([layers.LSTM, layers.GRU, layers.SimpleRNN])
    layer = kind(draw.of([4, 5]), return_sequences=True, go_backwards=draw.yes(0.2))
    return layers.Bidirectional(kind(3, return_sequences=True))(x) if draw.yes(0.3) else layer(x)


def _attended(draw: Draw, x: Any) -> Any:
    attended = layers.MultiHeadAttention(2, draw.of([3, 4]))(x, x, use_causal_mask=draw.yes(0.3))
    return draw.of([lambda: attended, lambda: layers.Add()([x, attended]), lambda: layers.Attention()([x, attended])])()


def _convolved_1d(draw: Draw, x: Any) -> Any:
    padding = draw.of(["same", "valid", "causal"])
    kind = draw.of([
        lambda: layers.Conv1D(6, draw.of([1, 2]), padding=padding, dilation_rate=draw.of([1, 2])),
        lambda: layers.SeparableConv1D(5, 2, padding="same"), lambda: layers.MaxPooling1D(2, 1),
        lambda: layers.AveragePooling1D(2, 1, "same"), lambda: layers.Dense(6, activation=draw.activation()),
        lambda: layers.TimeDistributed(layers.Dense(4)), lambda: layers.EinsumDense("abc,cd->abd", (None, 5), "d"),
    ])  # fmt: skip
    return kind()(x)


_OVER_IMAGES: tuple[Make, ...] = (
    _convolved,
    _convolved,
    _depthwise,
    _pooled,
    _normalized,
    _activated,
    _resized,
    _gated,
)
_OVER_SEQUENCES: tuple[Make, ...] = (_recurrent, _attended, _convolved_1d, _normalized, _activated)


def _grown(draw: Draw, x: Any, kinds: Sequence[Make], steps: int) -> list[Any]:
    """The tensors after `steps` layers, each on one of the tensors before it or on two of one shape."""
    found = [x]
    for _ in range(steps):
        from_ = found[-1] if draw.yes(0.75) else draw.of(found)
        alike = [one for one in found if one is not from_ and one.shape == from_.shape]
        if alike and draw.yes(0.4):
            kind = draw.of([layers.Add, layers.Multiply, layers.Maximum, layers.Average, layers.Concatenate])
            made = kind()([from_, draw.of(alike)])
        else:
            try:
                made = draw.of(kinds)(draw, from_)
            except ValueError:  # a window that is larger than what it goes over
                continue
        if min(made.shape[1:]) >= 2 and np.prod(made.shape[1:]) < 20000:
            found.append(made)
    return found


@functools.lru_cache(maxsize=1)
def network(seed: int) -> Any:
    """A model of five outputs; the same for the same seed."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    draw = Draw(seed)
    image = keras.Input((draw.of([9, 12, 16]), draw.of([8, 12, 15]), 3))
    tensors = _grown(draw, layers.Rescaling(1 / 127.5, -1.0)(image), _OVER_IMAGES, draw.of([4, 7, 10]))
    last = tensors[-1]
    ends = [draw.of([layers.GlobalAveragePooling2D(), layers.Flatten(), layers.GlobalMaxPooling2D()])(last)]
    if draw.yes():
        rows = layers.Reshape((-1, last.shape[-1]))(last)[:, :12]
        rows = _grown(draw, rows, _OVER_SEQUENCES, draw.of([2, 4]))[-1]
        ends.append(draw.of([layers.GlobalAveragePooling1D(), layers.Flatten(), layers.GlobalMaxPooling1D()])(rows))
    joined = layers.Concatenate()(ends) if len(ends) > 1 else ends[0]
    model = keras.Model(image, layers.Dense(5, activation=draw.of(["softmax", None, "sigmoid"]))(joined))
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        kind = weight.path.split("/")[-1]
        if kind in ("gamma", "moving_variance"):
            weight.assign(rng.uniform(0.8, 1.2, weight.shape).astype("float32"))
        elif kind in ("beta", "bias", "moving_mean", "alpha"):
            weight.assign(rng.normal(0, 0.1, weight.shape).astype("float32"))
    return model


def compare(case: str, folder: Path, compiled: bool) -> float:
    """The difference of a seed and a format, "SEED FORMAT"."""
    seed, kind = case.split()
    model = network(int(seed))
    return difference(*FORMATS[kind](model, images(model), folder, compiled))


def main() -> None:
    """Print a line a model and format."""
    parser = options(__doc__ or "")
    parser.add_argument("--formats", default="keras,h5,saved,frozen,tflite,tflite-int8,tflite-int16,tflite-weights")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 50))
    args = parser.parse_args()
    cases = [f"{seed} {kind}" for seed in range(*args.seeds) for kind in args.formats.split(",")]
    compare_cases(cases, args, compare, lambda case: 0 if case.endswith(("int8", "int16")) else BOUND)


if __name__ == "__main__":
    main()
