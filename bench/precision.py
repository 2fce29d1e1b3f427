"""Products and networks with operands in bfloat16 and float16, beside float32 and other engines.

    python bench/precision.py [--threads 2] [--sizes 1024,2048] [--models bert.onnx,resnet50.onnx] [--seconds 5]
                              [--cpu-time] [--json FILE]

All engines of a product or network are run in turns. Reported are the minimum and the median, how many times as fast as
our float32 that is, and the largest difference from our float32 as a share of the largest result. With `--cpu-time`
times are those of all the process's threads, which other programs disturb less; use one thread with it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import relay
from tilewright.relay import op
from tilewright.relay.ir.module import IRModule

Run = Callable[[], Any]


def product_engines(size: int, threads: int) -> dict[str, Run]:
    """A product of square matrices with a constant weight by each engine that is there."""
    rng = np.random.default_rng(0)
    x, weight = (rng.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    body = op.nn.dense(relay.var("x", shape=x.shape, dtype="float32"), relay.const(weight))
    found = our_engines(IRModule.from_expr(body), {"x": x}, threads)
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(threads)
    a, b = (torch.from_numpy(m).to(torch.bfloat16) for m in (x, weight.T.copy()))
    return {**found, "torch bf16": lambda: (a @ b).float().numpy()}


def our_engines(model: Any, inputs: dict[str, Any], threads: int) -> dict[str, Run]:
    """Our precisions, that of float16 where the processor computes in it."""
    target = f"cpu -cores={threads}"
    names = ("float32", "bf16", *(("f16",) if tw.Target(target).half_feature_string else ()))
    compiled = {name: tw.compile(model, target=target, threads=threads, precision=name) for name in names}
    return {name: lambda one=one: np.asarray(one.run(inputs)[0]) for name, one in compiled.items()}


def network_engines(path: str, threads: int) -> dict[str, Run]:
    """A network of static sizes by our precisions, and by onnxruntime where that is there."""
    rng = np.random.default_rng(0)
    entries = tw.compile(path, target=f"cpu -cores={threads}", threads=threads).inputs
    # indices and masks of transformers may be 0 or 1
    inputs = {
        entry.name: rng.standard_normal(entry.shape).astype(str(entry.dtype))
        if str(entry.dtype).startswith("float")
        else rng.integers(0, 2, entry.shape).astype(str(entry.dtype))
        for entry in entries
    }
    found = our_engines(path, inputs, threads)
    try:
        import onnxruntime
    except ImportError:
        return found
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return {**found, "onnxruntime float32": lambda: session.run(None, inputs)[0]}


def measure(engines: dict[str, Run], seconds: float, clock: Callable[[], float]) -> dict[str, dict[str, float]]:
    """Minimum and median milliseconds of each, in turns, the ratio of medians to float32, the difference from it."""
    reference = np.asarray(engines["float32"](), np.float64)
    times: dict[str, list[float]] = {name: [] for name in engines}
    differences = {
        name: float(np.abs(np.asarray(run(), np.float64) - reference).max() / np.abs(reference).max())
        for name, run in engines.items()
    }
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times["float32"]) < 5:
        for name, run in engines.items():
            start = clock()
            run()
            times[name].append(1e3 * (clock() - start))
    median = {name: statistics.median(found) for name, found in times.items()}
    return {
        name: {
            "minimum": min(times[name]), "median": median[name], "times": median["float32"] / median[name],
            "difference": differences[name],
        }
        for name in engines
    }  # fmt: skip


def main() -> None:
    """Measure what the arguments name and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sizes", default="1024,2048")
    parser.add_argument("--models", default="")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    clock = time.process_time if args.cpu_time else time.perf_counter
    record = {}
    jobs = [(size, product_engines, int(size)) for size in args.sizes.split(",") if size]
    jobs += [(Path(path).stem, network_engines, path) for path in args.models.split(",") if path]
    for label, engines, what in jobs:
        record[label] = measure(engines(what, args.threads), args.seconds, clock)  # type: ignore[operator]
        for name, row in record[label].items():
            print(f"{label:16} {name:20} {row['minimum']:9.3f} ms {row['median']:9.3f} ms {row['times']:6.2f} x "
                  f"{row['difference']:.1e}", flush=True)  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps({"target": str(tw.Target("cpu")), "results": record}, indent=1) + "\n")


if __name__ == "__main__":
    main()
