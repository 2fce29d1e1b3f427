"""Agreement of networks of keras.applications, with random weights, in every format that Keras and TensorFlow write.

    KERAS_BACKEND=tensorflow python -m bench.frontends.keras_networks [--only WORD] [--formats keras,h5,…] [--compile]
        [--log FILE] [--seconds 300]

Each network is saved as `.keras`, `.h5`, SavedModel, frozen graph and as TFLite: in floats, with weights of 16-bit
floats, with weights of 8 bits, and in integers altogether, tensors of 8 or 16 bits. The first four are compared with
Keras, the others with TFLite's reference kernels; "difference" is the largest one over the largest output, of
integers the largest number of quanta. Our side is Relay's interpreter, or with `--compile` the compiled model. Needs
TensorFlow and Keras.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import tilewright as tw
from bench.frontends.compared import BOUND, compare_cases, options
from tilewright.frontend.keras import from_keras
from tilewright.frontend.tensorflow import from_tensorflow
from tilewright.frontend.tflite import from_tflite
from tilewright.relay import interpret

#: The smallest images that networks take, where 64 by 64 are too few.
_EXTENTS = {"InceptionV3": 75, "InceptionResNetV2": 75, "Xception": 71, "NASNetMobile": 64, "NASNetLarge": 64}

#: Of each network its name in keras.applications, those with few weights first.
NAMES = (
    "MobileNetV2", "MobileNet", "MobileNetV3Small", "NASNetMobile", "EfficientNetB0", "MobileNetV3Large",
    "EfficientNetV2B0", "DenseNet121", "EfficientNetB1", "EfficientNetV2B1", "EfficientNetB2", "EfficientNetV2B2",
    "EfficientNetB3", "DenseNet169", "EfficientNetV2B3", "EfficientNetB4", "DenseNet201", "EfficientNetV2S",
    "Xception", "InceptionV3", "ResNet50", "ResNet50V2", "ConvNeXtTiny", "EfficientNetB5", "EfficientNetB6",
    "ResNet101", "ResNet101V2", "ConvNeXtSmall", "EfficientNetV2M", "InceptionResNetV2", "ResNet152", "ResNet152V2",
    "EfficientNetB7", "ConvNeXtBase", "NASNetLarge", "EfficientNetV2L", "VGG16", "VGG19", "ConvNeXtLarge",
    "ConvNeXtXLarge",
)  # fmt: skip

Arrays = list[np.ndarray]


def network(name: str) -> Any:
    """A network of ten classes, its statistics and offsets drawn at random."""
    keras.utils.set_random_seed(0)
    extent = _EXTENTS.get(name, 64)
    model = getattr(keras.applications, name)(weights=None, classes=10, input_shape=(extent, extent, 3))
    rng = np.random.default_rng(5)
    for weight in model.weights:
        kind = weight.path.split("/")[-1]
        if kind in ("gamma", "moving_variance"):
            weight.assign(rng.uniform(0.8, 1.2, weight.shape).astype("float32"))
        elif kind in ("beta", "bias", "moving_mean"):
            weight.assign(rng.normal(0, 0.1, weight.shape).astype("float32"))
    return model


def images(model: Any, seed: int = 0) -> np.ndarray:
    """One, of what the network takes before its own preprocessing, if it has some."""
    shape = (1, *model.inputs[0].shape[1:])
    return np.random.default_rng(seed).uniform(0, 255, shape).astype("float32")


def ours(mod: Any, feed: dict[str, np.ndarray], compiled: bool) -> Arrays:
    """Our results."""
    found: Any = tw.compile(mod, cache=False).run(feed) if compiled else interpret(mod, feed)
    return [np.asarray(one) for one in (found if isinstance(found, list | tuple) else [found])]


def archived(suffix: str) -> Callable[..., tuple[Arrays, Arrays]]:
    """Results from a file that Keras writes, and Keras' own."""

    def results(model: Any, x: np.ndarray, folder: Path, compiled: bool) -> tuple[Arrays, Arrays]:
        path = str(folder / f"model{suffix}")
        model.save(path)
        (name,) = [spec.name for spec in from_keras(path)[1]]
        mod, _ = from_keras(path, {name: x.shape})
        return ours(mod, {name: x}, compiled), [np.asarray(model(x, training=False))]

    return results


def saved(model: Any, x: np.ndarray, folder: Path, compiled: bool) -> tuple[Arrays, Arrays]:
    """Results from a SavedModel."""
    model.export(str(folder), verbose=False)
    (name,) = [spec.name for spec in from_tensorflow(str(folder))[1]]
    mod, _ = from_tensorflow(str(folder), {name: x.shape})
    return ours(mod, {name: x}, compiled), [np.asarray(model(x, training=False))]


def without_variables(model: Any, x: np.ndarray) -> Any:
    """A function of the network in which variables are constants."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    function = tf.function(lambda x: model(x, training=False))
    return convert_variables_to_constants_v2(function.get_concrete_function(tf.TensorSpec(x.shape, tf.float32)))


def frozen(model: Any, x: np.ndarray, folder: Path, compiled: bool) -> tuple[Arrays, Arrays]:
    """Results from a GraphDef whose variables are constants."""
    mod, specs = from_tensorflow(without_variables(model, x).graph.as_graph_def().SerializeToString())
    return ours(mod, {specs[0].name: x}, compiled), [np.asarray(model(x, training=False))]


def _opened(whole: bytes) -> Any:
    """TFLite with its reference kernels, ready to run."""
    kinds = tf.lite.experimental.OpResolverType
    try:
        run = tf.lite.Interpreter(model_content=whole, experimental_op_resolver_type=kinds.BUILTIN_REF)
    except ValueError as error:
        if "Didn't find op" not in str(error):
            raise
        plain = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES  # an operator of one kernel only
        run = tf.lite.Interpreter(model_content=whole, experimental_op_resolver_type=plain)
    run.allocate_tensors()
    return run


def converted(change: Callable[[Any, Any], None]) -> Callable[..., tuple[Arrays, Arrays]]:
    """Results from a TFLite file made with the settings of `change`, and those of the reference kernels."""

    def results(model: Any, x: np.ndarray, folder: Path, compiled: bool) -> tuple[Arrays, Arrays]:
        converter = tf.lite.TFLiteConverter.from_concrete_functions([without_variables(model, x)])
        change(converter, lambda: ([images(model, seed)] for seed in range(1, 4)))
        whole = converter.convert()
        (folder / "model.tflite").write_bytes(whole)
        run = _opened(whole)
        (given,) = run.get_input_details()
        if given["dtype"] != np.float32:
            scale, zero = given["quantization"]
            range_ = np.iinfo(given["dtype"])
            x = np.clip(np.round(x / scale + zero), range_.min, range_.max).astype(given["dtype"])
        run.set_tensor(given["index"], x)
        run.invoke()
        wanted = [run.get_tensor(one["index"]) for one in run.get_output_details()]
        mod, specs = from_tflite(whole)
        return ours(mod, {specs[0].name: x}, compiled), wanted

    return results


def _weights(converter: Any, data: Any) -> None:
    converter.optimizations = [tf.lite.Optimize.DEFAULT]


def _float16(converter: Any, data: Any) -> None:
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_types = [tf.float16]


def _integers(converter: Any, data: Any) -> None:
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = data
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8


def _integers_16(converter: Any, data: Any) -> None:
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = data
    converter.target_spec.supported_ops = [tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int16


FORMATS: dict[str, Callable[..., tuple[Arrays, Arrays]]] = {
    "keras": archived(".keras"), "h5": archived(".h5"), "saved": saved, "frozen": frozen,
    "tflite": converted(lambda converter, data: None), "tflite-f16": converted(_float16),
    "tflite-weights": converted(_weights), "tflite-int8": converted(_integers),
    "tflite-int16": converted(_integers_16),
}  # fmt: skip


def difference(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """The largest over all results, infinite where shapes or types are others."""
    if [(one.shape, one.dtype) for one in found] != [(one.shape, one.dtype) for one in wanted]:
        return float("inf")
    apart = 0.0
    for one, other in zip(found, wanted):
        most = float(np.abs(one.astype("float64") - other.astype("float64")).max(initial=0))
        apart = max(apart, most if one.dtype.kind in "iu" else most / float(max(np.abs(other).max(initial=0), 1e-30)))
    return apart


@functools.lru_cache(maxsize=1)
def _kept(name: str) -> Any:
    """`network` for all formats of one, which follow each other."""
    keras.backend.clear_session()
    return network(name)


def compare(case: str, folder: Path, compiled: bool) -> float:
    """The difference of a network and a format, "NAME FORMAT"."""
    name, kind = case.split()
    model = _kept(name)
    return difference(*FORMATS[kind](model, images(model), folder, compiled))


def main() -> None:
    """Print a line a network and format."""
    parser = options(__doc__ or "")
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--first", type=int, default=len(NAMES), help="so many networks, the small ones")
    parser.add_argument("--skip", type=int, default=0, help="so many networks before those")
    args = parser.parse_args()
    chosen = [name for name in NAMES[args.skip : args.first] if args.only in name]
    cases = [f"{name} {kind}" for name in chosen for kind in args.formats.split(",")]
    compare_cases(cases, args, compare, lambda case: 0 if case.endswith(("int8", "int16")) else BOUND)


if __name__ == "__main__":
    main()
