"""Whole networks on devices beside onnxruntime on the processor and, where it is installed, tinygrad on OpenCL.

    python bench/gpu_peers.py [--targets "opencl -device=cpu,opencl"] [--only mlp,dqn,mobilenet_v2] [--seconds 12]
                              [--threads 2] [--json FILE] [--markdown FILE]

Each network runs in a process of its own, all engines in turns in it: a call that does not count, then three that do,
with a pause before, in which the workers of the last engine fall asleep. The table has the minimum and the median of
each, the processor time of a call (of all threads, the least of them), and the largest difference from onnxruntime as
a part of the largest result; exit status 1 where that is above 1e-4. tinygrad opens the library that the variable
OPENCL_PATH names, by default the one that pyopencl brings.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from networks import ROOT, model_file
from report import machine, table, versions

from tilewright.cli.timing import TIMED_CALLS

Run = Callable[[], Any]
#: Of the largest result.
_ALLOWED = 1e-4
_PAUSE = 0.03


def _onnxruntime(path: Path, inputs: dict[str, Any], threads: int) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)[0]


def _tinygrad(path: Path, inputs: dict[str, Any]) -> Run | None:
    """A recorded run, copies of the inputs and the result with it; None where it is not installed."""
    import pyopencl

    brought = glob.glob(str(Path(pyopencl.__file__).parent / ".libs" / "libOpenCL*"))
    os.environ.setdefault("OPENCL_PATH", brought[0] if brought else "libOpenCL.so.1")
    os.environ["DEV"] = "CL"
    try:
        from tinygrad import Tensor, TinyJit
        from tinygrad.nn.onnx import OnnxRunner
    except ImportError as error:
        print(f"tinygrad is left out: {error}", file=sys.stderr)
        return None
    model = OnnxRunner(str(path))
    recorded = TinyJit(lambda **values: next(iter(model(values).values())).realize())
    return lambda: recorded(**{name: Tensor(value).realize() for name, value in inputs.items()}).numpy()


def _ours(path: Path, target: str, inputs: dict[str, Any], threads: int) -> Run:
    import tilewright as tw

    model = tw.compile(str(path), target=target, threads=threads if target.startswith("llvm") else None)

    def run() -> Any:
        made = model(*inputs.values())
        return np.asarray(made[0] if isinstance(made, list | tuple) else made)

    return run


def _call(run: Run) -> tuple[float, float]:
    """Seconds of a call, and those that all threads were at work."""
    busy, start = time.process_time(), time.perf_counter()
    run()
    return time.perf_counter() - start, time.process_time() - busy


def measured(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A record for each engine, on one network."""
    import onnx

    path, _ = model_file(name, args.folder)
    draw = np.random.default_rng(0)
    shapes = {i.name: [d.dim_value or 1 for d in i.type.tensor_type.shape.dim] for i in onnx.load(path).graph.input}
    inputs = {key: draw.standard_normal(shape).astype("float32") for key, shape in shapes.items()}
    runs: dict[str, Run | None] = {target: _ours(path, target, inputs, args.threads) for target in args.targets}
    runs |= {"onnxruntime": _onnxruntime(path, inputs, args.threads), "tinygrad": _tinygrad(path, inputs)}
    engines = {engine: run for engine, run in runs.items() if run is not None}
    expected = engines["onnxruntime"]()
    errors = {}
    for engine, run in engines.items():
        for _ in range(3):  # tinygrad records in the second call
            result = run()
        errors[engine] = float(np.abs(result - expected).max() / np.abs(expected).max())
    taken: dict[str, list[tuple[float, float]]] = {engine: [] for engine in engines}
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        for engine, run in engines.items():
            time.sleep(_PAUSE)
            run()
            taken[engine] += [_call(run) for _ in range(TIMED_CALLS)]
    records = []
    for engine, calls in taken.items():
        times, busy = zip(*calls, strict=True)
        figures = {"minimum_ms": min(times) * 1e3, "median_ms": median(times) * 1e3, "busy_ms": min(busy) * 1e3}
        records.append({"model": name, "engine": engine, "error": errors[engine], "calls": len(calls), **figures})
    return records


def _row(record: dict[str, Any], first: dict[str, Any]) -> list[str]:
    figures = [f"{record[key]:.3f}" for key in ("minimum_ms", "median_ms", "busy_ms")]
    ratio = f"{record['median_ms'] / first['median_ms']:.2f}"
    return [record["model"], record["engine"], *figures, ratio, f"{record['error']:.1e}", str(record["calls"])]


def main() -> None:
    """Measure each network in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=lambda text: text.split(","), default=["opencl -device=cpu", "opencl"])
    parser.add_argument("--only", default="mlp,dqn,mobilenet_v2")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "networks")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measured(args.only, args)))
        return
    records: list[dict[str, Any]] = []
    rows = []
    for name in args.only.split(","):
        command = [sys.executable, __file__, "--child", "--only", name, "--targets", ",".join(args.targets)]
        command += ["--seconds", str(args.seconds), "--threads", str(args.threads), "--folder", str(args.folder)]
        environment = os.environ | {"POCL_MAX_PTHREAD_COUNT": str(args.threads)}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
        made = json.loads(done.stdout.splitlines()[-1])
        records += made
        rows += [_row(record, made[0]) for record in made]
    heading = ["network", "engine", "minimum ms", "median ms", "busy ms", "median / first", "error", "calls"]
    text = f"{machine()}; {versions(('numpy', 'onnxruntime', 'tinygrad', 'pyopencl'))}\n\n{table(heading, rows)}"
    print(text)
    if args.markdown:
        args.markdown.write_text(text + "\n")
    if args.json:
        args.json.write_text(json.dumps(records, indent=1))
    raise SystemExit(any(record["error"] > _ALLOWED for record in records))


if __name__ == "__main__":
    main()
