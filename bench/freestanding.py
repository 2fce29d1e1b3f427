"""Networks and a training step as freestanding C: the symbols they need, and their results in both enclaves.

    python bench/freestanding.py build/networks/*.onnx [--training] [--kinds seccomp,wasm] [--runs N] [--json FILE]

Each model is written by `export_source(freestanding=True)`; the relocatable object (position independent, -O2) may need
memcpy and memset alone. It then runs as a static program under seccomp strict, with guard pages, and as a WebAssembly
module without imports. Under seccomp the results must be those of the ordinary model of target "c" bit for bit; in
WebAssembly, whose tiles and rounding differ, within 1e-5 of the largest value (`--bound`). Times are of the processor,
one thread: the least of the runs. `--quick` compares with onnxruntime instead and takes the symbols of the program's
own object, which has stack canaries: one compilation a kind.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tilewright as tw
from tilewright import relay
from tilewright.compile import export_source
from tilewright.enclave import TARGETS, EnclaveModel, SeccompModel, open_enclave, undefined_symbols
from tilewright.enclave.build import ALLOWED, OPTIONS
from tilewright.errors import UserError
from tilewright.training import training_step

Array = np.ndarray[Any, Any]
Model = str | relay.IRModule


class _Spec(NamedTuple):
    name: str
    static_shape: tuple[int, ...]
    numpy: np.dtype[Any]


def training() -> tuple[relay.IRModule, dict[str, Array]]:
    """The step of `examples/train_digits.py` for its convolutional network with SGD, and its inputs."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    from train_digits import CLASSES, OPTIMIZERS, SHAPES, cnn, initial_weights  # type: ignore[import-not-found]

    x, y = relay.var("x", shape=(8, 8, 8)), relay.var("y", shape=(8,), dtype="int64")
    w = {name: relay.var(name, shape=shape) for name, shape in SHAPES["cnn"].items()}
    scores = relay.nn.log_softmax(cnn(x, w))
    loss = relay.nn.nll_loss(scores, y, relay.const(np.ones(CLASSES, "float32")))
    step = training_step(loss, list(w.values()), OPTIMIZERS["sgd"])
    rng = np.random.default_rng(0)
    images = {"x": rng.random((8, 8, 8), "float32"), "y": rng.integers(0, CLASSES, 8)}
    return step.module, {**images, **initial_weights("cnn"), **step.state}


def inputs_of(specs: Any) -> dict[str, Array]:
    """Random inputs; small whole numbers where a model takes integers."""
    rng = np.random.default_rng(0)
    found = {}
    for spec in specs:
        normal = spec.numpy.kind == "f"
        values = rng.standard_normal(spec.static_shape) if normal else rng.integers(0, 100, spec.static_shape)
        found[spec.name] = values.astype(spec.numpy)
    return found


def symbols(source: Path) -> tuple[set[str], float]:
    """The undefined symbols of the position-independent object, and the compiler's seconds."""
    start = time.perf_counter()
    made = source.with_suffix(".o")
    subprocess.run(
        ["cc", *OPTIONS, "-march=native", "-fPIC", "-c", source.name, "-o", made.name], cwd=source.parent, check=True
    )
    return undefined_symbols(made.read_bytes()), time.perf_counter() - start


def seconds_of(model: EnclaveModel, inputs: Mapping[str, Array], runs: int) -> float:
    """The processor's seconds of a run, the least of `runs`."""
    pid = model.pid if isinstance(model, SeccompModel) else 0
    clock: Callable[[], float] = (lambda: time.clock_gettime(~pid << 3 | 2)) if pid else time.process_time
    arrays = [np.ascontiguousarray(inputs[spec.name]) for spec in model.inputs]

    def taken(times: int) -> float:
        start = clock()
        model._answer(arrays, times)
        return clock() - start

    return max(min(taken(2) for _ in range(runs)) - min(taken(1) for _ in range(runs)), 0.0)


def wanted_of(model: Model, inputs: dict[str, Array] | None, quick: bool) -> tuple[dict[str, Array], list[Array]]:
    """The inputs, and the results of the ordinary model, or of onnxruntime."""
    if quick and isinstance(model, str):
        import onnxruntime

        session = onnxruntime.InferenceSession(model)
        kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
        specs = [_Spec(one.name, tuple(one.shape), np.dtype(kinds[one.type])) for one in session.get_inputs()]
        inputs = inputs or inputs_of(specs)
        return inputs, session.run(None, inputs)
    ordinary = tw.compile(model, target="c", threads=1, cache=False)
    inputs = inputs or inputs_of(ordinary.inputs)
    return inputs, [np.asarray(value) for value in ordinary.run(inputs)]


def rows(
    name: str, model: Model, inputs: dict[str, Array] | None, given: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """One row for each kind of enclave."""
    inputs, wanted = wanted_of(model, inputs, given.quick)
    gc.collect()
    for kind in given.kinds.split(","):
        row: dict[str, Any] = {"model": name, "kind": kind, "optimize": given.optimize}
        with tempfile.TemporaryDirectory(prefix="freestanding-") as folder:
            start = sum(os.times()[:4])
            files = export_source(model, Path(folder) / "model.c", target=TARGETS[kind], freestanding=True)
            row["write_s"] = round(sum(os.times()[:4]) - start, 1)
            row["bytes"] = [file.stat().st_size for file in files]
            row["lines"] = files[0].read_text().count("\n")
            if kind == "seccomp" and not given.quick:
                found, row["cc_s"] = symbols(files[0])
                row["undefined"] = sorted(found)
                row["allowed"] = found <= ALLOWED
            start = sum(os.times()[2:4])
            opened = open_enclave(files, kind, given.optimize)
            row["program_s"] = round(sum(os.times()[2:4]) - start, 1)
        found_values = opened.run(inputs)
        row["equal"] = all(np.array_equal(a, b) for a, b in zip(found_values, wanted, strict=True))
        row["error"] = max(_error(a, b) for a, b in zip(found_values, wanted, strict=True))
        row["us"] = seconds_of(opened, inputs, given.runs) * 1e6
        if isinstance(opened, SeccompModel):
            opened.close()
        yield row
        del opened
        gc.collect()


def _error(found: Array, wanted: Array) -> float:
    largest = float(np.abs(wanted.astype(np.float64)).max(initial=0.0))
    return float(np.abs(found.astype(np.float64) - wanted).max(initial=0.0)) / max(largest, 1e-30)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--training", action="store_true", help="also the training step")
    parser.add_argument("--kinds", default="seccomp,wasm")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--optimize", default="-O2")
    parser.add_argument("--quick", action="store_true", help="against onnxruntime, one compilation a kind")
    parser.add_argument("--bound", type=float, default=1e-5)
    parser.add_argument("--json", type=Path, help="add each row to this file, a line of JSON")
    given = parser.parse_args()
    models: list[tuple[str, Model, dict[str, Array] | None]] = [(Path(path).stem, path, None) for path in given.models]
    if given.training:
        models.append(("training step", *training()))
    failed = False
    for name, model, inputs in models:
        try:
            for row in rows(name, model, inputs, given):
                good = row.get("allowed", True) and (
                    row["equal"] or ((given.quick or row["kind"] == "wasm") and row["error"] <= given.bound)
                )
                failed |= not good
                print("ok  " if good else "FAIL", json.dumps(row), flush=True)
                if given.json:
                    with given.json.open("a") as file:
                        file.write(json.dumps(row) + "\n")
        except UserError as error:
            failed = True
            print(f"FAIL {name}: {error}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
