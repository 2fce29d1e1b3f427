"""Models compiled once for symbolic sizes beside the same models compiled for the size at hand, one thread, by turns.

    python bench/symbolic.py FOLDER [NAME ...]

FOLDER holds the networks of `MODELS` as NAME.onnx or NAME/*.onnx. Prints the least milliseconds of both for each size,
the ratios of the least and of the median times, and the seconds that both compilations took.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.frontend.onnx import from_onnx
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.model import Model

Shape = tuple[Any, ...]

#: name -> (the input of symbolic sizes, its shape, the values of its dimensions by turns)
MODELS: dict[str, tuple[str, Shape, list[dict[str, int]]]] = {
    "ppocrv4_det": ("x", (1, 3, "H", "W"), [{"H": 320, "W": 480}, {"H": 640, "W": 640}]),
    "ppocr_cls": ("x", ("N", 3, 48, 192), [{"N": 1}, {"N": 6}]),
    "resnet18": ("in0", (1, 3, "H", "W"), [{"H": 224, "W": 224}, {"H": 160, "W": 288}]),
    "resnet18 batch": ("in0", ("N", 3, 224, 224), [{"N": 1}, {"N": 4}]),
    "mobilenet_v2": ("in0", (1, 3, "H", "W"), [{"H": 224, "W": 224}, {"H": 160, "W": 288}]),
    "basic_pitch": ("serving_default_input_2:0", ("N", 43844, 1), [{"N": 1}, {"N": 2}]),
    "magika": ("bytes", ("N", 2048), [{"N": 1}, {"N": 8}]),
    "aecmos": ("input", (1, 3, "T", 160), [{"T": 250}, {"T": 400}]),
    "smart_turn_v3_int8": ("input_features", ("N", 80, 800), [{"N": 1}, {"N": 2}]),
}


def find(folder: Path, name: str) -> Path | None:
    """The model file of `name`, of which the first word counts; None where there is none."""
    stem = name.split()[0]
    return next(iter([*folder.glob(f"{stem}.onnx"), *sorted(folder.glob(f"{stem}/*.onnx"))]), None)


def random_inputs(model: Model) -> dict[str, np.ndarray]:
    """Inputs of the shapes that a model of fixed sizes takes."""
    rng = np.random.default_rng(0)
    made = {}
    for spec in model.inputs:
        shape = spec.static_shape
        drawn = rng.standard_normal(shape) if spec.dtype.is_float else rng.integers(0, 100, shape)
        made[spec.name] = drawn.astype(spec.numpy)
    return made


def by_turns(
    first: Model, second: Model, inputs: dict[str, np.ndarray], seconds: float = 1.0
) -> tuple[list[float], list[float]]:
    """Seconds of runs of both, taken in turns until `seconds` and 30 turns are over."""
    a, b, start = [], [], time.perf_counter()
    while len(a) < 30 or time.perf_counter() < start + seconds:
        a += first.time(inputs, 1)
        b += second.time(inputs, 1)
    return a, b


def compiled(module: IRModule, shapes: dict[str, Shape] | None = None) -> tuple[Model, float]:
    """The model, with sizes fixed to `shapes`, and the seconds it took to compile."""
    start = time.perf_counter()
    return tw.compile(module, input_shapes=shapes, threads=1, cache=False), time.perf_counter() - start


def measure(name: str, path: Path, seconds: float = 1.0) -> None:
    """Print a row for each size of a model, each measured for `seconds`."""
    given, shape, sizes = MODELS[name]
    module, _ = from_onnx(path, {given: shape})
    symbolic, own_seconds = compiled(module)
    for values in sizes:
        fixed_shape = tuple(values.get(dim, dim) for dim in shape)
        fixed, fixed_seconds = compiled(module, {given: fixed_shape})
        ours, theirs = by_turns(symbolic, fixed, random_inputs(fixed), seconds)
        least, median = min(ours) / min(theirs), statistics.median(ours) / statistics.median(theirs)
        text = "×".join(map(str, fixed_shape))
        times = f"{min(ours) * 1e3:.2f} | {min(theirs) * 1e3:.2f}"
        print(
            f"| {name} | {text} | {times} | {least:.2f} | {median:.2f} | {own_seconds:.1f} | {fixed_seconds:.1f} |",
            flush=True,
        )


def main() -> None:
    """Measure the models of a folder, all or those named."""
    folder, *names = sys.argv[1:]
    print("| model | input | symbolic ms | fixed ms | ratio | of medians | symbolic s | fixed s |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names or MODELS:
        path = find(Path(folder), name)
        if path is not None:
            measure(name, path)


if __name__ == "__main__":
    main()
