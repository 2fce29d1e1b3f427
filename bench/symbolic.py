"""Models compiled once for symbolic sizes beside the same models compiled for the size at hand, one thread, by turns.

    python bench/symbolic.py FOLDER [NAME ...]
    python bench/symbolic.py --blocks

FOLDER holds the networks of `MODELS` as NAME.onnx or NAME/*.onnx. Prints the least milliseconds of both for each size,
the ratios of the least and of the median times, and the seconds that both compilations took. `--blocks` measures
transformer blocks of the widths and lengths of `BLOCKS`, with a symbolic length, and with a symbolic batch as well.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import te
from tilewright.frontend.onnx import from_onnx
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, Function, Var, const
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
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


#: (width, length) of the transformer blocks.
BLOCKS = ((64, 16), (384, 32), (256, 64), (128, 128), (128, 256))


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


def block(width: int, heads: int = 4) -> IRModule:
    """A transformer block over x [B, S, width]: attention, then a feed-forward of four times its width."""
    rng = np.random.default_rng(width)
    batch, length, depth = te.size_var("B", hint=1), te.size_var("S"), width // heads

    def weight(*shape: int) -> Expr:
        return const((rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32))

    def heads_of(x: Expr) -> Expr:
        made = op.reshape(op.nn.dense(x, weight(width, width)), (batch, length, heads, depth))
        return op.reshape(op.transpose(made, (0, 2, 1, 3)), (batch * heads, length, depth))

    def apart(x: Expr, last: Any) -> Expr:
        return op.reshape(x, (batch, heads, length, last))

    x = Var("x", TensorType((batch, length, width), "float32"))
    query, key, value = (heads_of(x) for _ in range(3))
    scores = op.multiply(op.nn.batch_matmul(query, key), const(np.float32(depth**-0.5)))
    shares = op.reshape(op.nn.softmax(apart(scores, length), axis=-1), (batch * heads, length, length))
    made = op.transpose(apart(op.nn.batch_matmul(shares, value, transpose_b=False), depth), (0, 2, 1, 3))
    made = op.add(op.nn.dense(op.reshape(made, (batch, length, width)), weight(width, width)), x)
    made = op.nn.layer_norm(made, weight(width), weight(width))
    inner = op.nn.relu(op.nn.dense(made, weight(4 * width, width)))
    return IRModule.from_expr(Function([x], op.add(op.nn.dense(inner, weight(width, 4 * width)), made)))


def measure_blocks(seconds: float = 1.0) -> None:
    """Print two rows for each block: of a symbolic length, and of a symbolic batch as well."""
    for width, length in BLOCKS:
        for batch in (1, "B"):
            measure(f"block {width}", block(width), ("x", (batch, "S", width), [{"B": 1, "S": length}]), seconds)


def measure(name: str, model: Any, sizes_of: tuple[str, Shape, list[dict[str, int]]], seconds: float = 1.0) -> None:
    """Print a row for each size of a model, a path or a module, each measured for `seconds`."""
    given, shape, sizes = sizes_of
    module = model
    if not isinstance(model, IRModule):
        module, _ = from_onnx(model, {given: shape})
    fixed_dims = {given: shape} if any(isinstance(dim, int) for dim in shape) else None
    symbolic, own_seconds = compiled(module, fixed_dims if isinstance(model, IRModule) else None)
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
    only_blocks = folder == "--blocks"
    print("| model | input | symbolic ms | fixed ms | ratio | of medians | symbolic s | fixed s |")
    print("|---|---|---|---|---|---|---|---|")
    if only_blocks:
        measure_blocks()
        return
    for name in names or MODELS:
        path = find(Path(folder), name)
        if path is not None:
            measure(name, path, MODELS[name])


if __name__ == "__main__":
    main()
