r"""Answers of trained models in 8 bits beside float: MLPerf Tiny's, and magika on the files of this machine.

    python bench/quantized_accuracy.py ../shared/models/real [--models vww,kws …] [--options '{"method": "best"}' …]
    python bench/quantized_accuracy.py ../shared/models/real --models resnet8 --options '{"rounding": "adaptive"}' \
        --picture docs/quantized_resnet8.svg

For each model and each set of options of `tw.quantize` a row: the share of inputs not seen by the quantizer with the
same answer as in float, the relative error of the results, and the layers that stayed in float; costs choose none.
Inputs are those of `quantized_inputs.py`. The answer of the autoencoder ad01 is whether a clip's error is above that of
90 % of the clips.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from quantized_inputs import Array, crops, engines, files, keywords

import tilewright as tw

CALIBRATED = 1000
#: Options that each model is tried with: the default first.
OPTIONS = [{}, {"correct_bias": True}, {"rounding": "adaptive"}, {"rounding": "adaptive", "max_loss": 0.008}]


def _images(size: int, scale: float) -> Callable[[Path, int, np.random.Generator], Array]:
    return lambda _path, count, rng: crops(size, count, rng)[:, None] * np.float32(scale)


def _files(path: Path, count: int, rng: np.random.Generator) -> Array:
    return files(path.with_name("config.min.json"), count, rng)[:, None]


#: name -> (file, inputs held out, samples [count, 1, …] of the path, a count and a generator)
MODELS: dict[str, tuple[str, int, Callable[[Path, int, np.random.Generator], Array]]] = {
    "resnet8": ("tflite/mlperf_tiny/pretrainedResnet.tflite", 2000, _images(32, 1.0)),
    "vww": ("tflite/mlperf_tiny/vww_96_float.tflite", 2000, _images(96, 1 / 255)),
    "kws": (
        "tflite/mlperf_tiny/kws_ref_model_float32.tflite",
        2000,
        lambda _path, count, rng: keywords(count, rng)[:, None],
    ),
    "ad01": (
        "tflite/mlperf_tiny/ad01_fp32.tflite",
        300 * 40,
        lambda _path, count, rng: engines(count // 40, rng).reshape(-1, 1, 640),
    ),
    "magika": ("onnx/magika/model.onnx", 3000, _files),
}


def answers(name: str, inputs: Array, results: Array) -> Array:
    """The classes, or for ad01 the errors of the clips."""
    if name != "ad01":
        return np.asarray(results.argmax(-1).reshape(-1))
    return np.asarray(np.mean((results - inputs).reshape(-1, 40 * 640) ** 2, axis=1))


def compare(name: str, root: Path, options: list[dict[str, Any]]) -> None:
    """Print the rows of a model."""
    file, held_out, make = MODELS[name]
    path = root / file
    samples = make(path, CALIBRATED + held_out, np.random.default_rng(7))
    exact_model = tw.compile(str(path), threads=1)
    key = exact_model.inputs[0].name
    test = samples[CALIBRATED:]
    exact = np.stack([np.asarray(exact_model(one)) for one in test])
    right = answers(name, test, exact)
    if name != "ad01":
        print(f"{name}: {len(test)} inputs, {len(np.unique(right))} answers of float", flush=True)
    # the autoencoder has no classes
    fixed: dict[str, Any] = {"objective": None} | ({"measure": "relative"} if name == "ad01" else {})
    for one in options:
        found = tw.quantize(str(path), {key: samples[:CALIBRATED]}, threads=1, **fixed, **one)
        model = found.compile(threads=1)
        ours = np.stack([np.asarray(model(sample)) for sample in test])
        again = answers(name, test, ours)
        if name == "ad01":
            level = np.quantile(right, 0.9)
            same = float(np.mean((right > level) == (again > level)))
        else:
            same = float(np.mean(right == again))
        error = float(np.linalg.norm(ours - exact) / np.linalg.norm(exact))
        left = len(found.recipe.choices) - len(found.recipe.quantized)
        print(
            f"| {name} | {json.dumps(one)} | {same:.2%} | {error:.2%} | {left} of {len(found.recipe.choices)} |",
            flush=True,
        )


def draw(name: str, root: Path, picture: Path, chosen: dict[str, Any]) -> None:
    """Write the picture of a model: loss against costs, and the error of each layer."""
    file, _, make = MODELS[name]
    samples = make(root / file, CALIBRATED, np.random.default_rng(7))
    key = tw.compile(str(root / file), threads=1).inputs[0].name
    found = tw.quantize(str(root / file), {key: samples}, threads=1, **{"objective": None, "front": True, **chosen})
    picture.write_text(found.picture())
    for point in found.front:
        print(f"{point.in_float} layers in float: loss {point.loss:.2%}, {point.cost.text()}", flush=True)


def main() -> None:
    """Compare the models that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("root", type=Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--options", type=json.loads, nargs="*", default=OPTIONS)
    parser.add_argument("--picture", type=Path, help="of the first model by the last options, instead")
    arguments = parser.parse_args()
    if arguments.picture:
        draw(arguments.models.split(",")[0], arguments.root, arguments.picture, arguments.options[-1])
        return
    for name in arguments.models.split(","):
        if name not in MODELS:
            sys.exit(f"there is no model {name}; there are {', '.join(MODELS)}")
        compare(name, arguments.root, arguments.options)


if __name__ == "__main__":
    main()
