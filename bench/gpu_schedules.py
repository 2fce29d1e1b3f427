"""Random configurations of the GPU templates, computed and compared with NumPy: every point of a space is a schedule.

    python bench/gpu_schedules.py [--count 200] [--target opencl] [--seed 0] [--dtypes float32]

Each turn draws an operator, sizes and a configuration of its search space, any with the same probability, builds it for
the target and compares the results. PoCL runs `product` and the reductions; tensor cores need `--target "cuda
-emulate=1" --dtypes float16`, which compiles each kernel as C++. Prints what differs, and a count by template.
"""

from __future__ import annotations

import argparse
import collections
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright
from tilewright import relay
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.autotvm.task.task import OUTPUT, KernelTask
from tilewright.driver.lower import lower_function
from tilewright.relay.ir.expr import Expr
from tilewright.target import Target

#: Of the largest result: sums in other orders.
_TOLERANCES = {"float32": 1e-4, "float16": 1e-2}
Case = tuple[Callable[..., Expr], list[tuple[int, ...]]]


def dense(draw: random.Random) -> Case:
    """A dense layer with an epilogue."""
    rows, columns, depth = (draw.choice([4, 7, 16, 33, 64, 100, 128]) for _ in range(3))
    return lambda x, w, b: relay.nn.relu(relay.add(relay.nn.dense(x, w), b)), [
        (rows, depth), (columns, depth), (columns,),
    ]  # fmt: skip


def batched(draw: random.Random) -> Case:
    """A stack of products."""
    batch, rows, columns, depth = draw.choice([2, 3]), *(draw.choice([4, 16, 20, 33, 64]) for _ in range(3))
    return lambda x, y: relay.nn.batch_matmul(x, y), [(batch, rows, depth), (batch, columns, depth)]


def convolution(draw: random.Random) -> Case:
    """A convolution, strided or not, grouped or not."""
    groups, size, kernel = draw.choice([1, 1, 2]), draw.choice([5, 8, 13]), draw.choice([1, 3])
    channels, filters = groups * draw.choice([4, 8, 16]), groups * draw.choice([4, 16, 24])
    options = {"strides": (draw.choice([1, 2]),) * 2, "padding": (kernel // 2,) * 2, "groups": groups}
    return lambda x, w: relay.nn.conv2d(x, w, **options), [
        (draw.choice([1, 2]), channels, size, size), (filters, channels // groups, kernel, kernel),
    ]  # fmt: skip


def reduction(draw: random.Random) -> Case:
    """Sums or extremes along some axes."""
    shape = tuple(draw.choice([1, 3, 17, 64, 300]) for _ in range(3))
    axes = draw.choice([(0,), (1,), (2,), (1, 2), (0, 2)])
    reduce = draw.choice([relay.sum, relay.max, relay.mean])
    return lambda x: relay.exp(reduce(x, axis=axes)), [shape]


def rows(draw: random.Random) -> Case:
    """Softmax along the last axis."""
    return lambda x: relay.nn.softmax(x, axis=-1), [(draw.choice([1, 5, 64]), draw.choice([3, 100, 1000, 3000]))]


CASES = (dense, batched, convolution, reduction, rows)


def drawn_task(draw: random.Random, target: Target, dtype: str) -> KernelTask | None:
    """A task of a drawn operator; None where it has no choices."""
    body, shapes = draw.choice(CASES)(draw)
    params = [relay.var(f"x{i}", shape=shape, dtype=dtype) for i, shape in enumerate(shapes)]
    module = relay.IRModule.from_expr(relay.Function(params, body(*params)))
    tasks = extract_from_program(module, target)
    return tasks[0] if tasks else None


def error_of(task: KernelTask, config: Any, target: Target, seed: int) -> float:
    """The largest difference from the processor's results, as a share of the largest result."""
    generator = np.random.default_rng(seed)
    arrays = [
        np.zeros(a.shape, a.dtype) if a.role == OUTPUT else generator.uniform(-1, 1, a.shape).astype(a.dtype)
        for a in task.arguments
    ]
    outputs = [i for i, a in enumerate(task.arguments) if a.role == OUTPUT]
    host = [array.copy() for array in arrays]
    for array, kind, chosen in ((arrays, target, dict(config)), (host, Target("cpu"), None)):
        func = lower_function(task.function, "kernel", kind, chosen)
        tilewright.build(func, kind)["kernel"](*array)
    found = [
        float(np.max(np.abs(arrays[i].astype("f8") - host[i].astype("f8"))) / max(1.0, np.abs(host[i]).max()))
        for i in outputs
    ]
    return max(found)


def main() -> None:
    """Draw, compute, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="configurations of each template")
    parser.add_argument("--target", default="opencl")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--seconds", type=float, default=1e9)
    given = parser.parse_args()
    draw, target, done = random.Random(given.seed), Target(given.target), collections.Counter[str]()
    wrong, start, misses = 0, time.monotonic(), 0
    while time.monotonic() - start < given.seconds and misses < 100:
        dtype = draw.choice(given.dtypes.split(","))
        task = drawn_task(draw, target, dtype)
        if task is None or done[task.key.template] >= given.count:
            misses += 1
            continue
        misses = 0
        for point in draw.sample(range(len(task.points)), min(10, len(task.points))):
            config = task.points.config(point)
            done[task.key.template] += 1
            try:
                error = error_of(task, config, target, draw.randrange(1 << 30))
                problem = f"off by {error:.1e}" if not error <= _TOLERANCES[dtype] else ""
            except Exception as failure:  # all are shown
                problem = f"{type(failure).__name__}: {str(failure)[:300]}"
            if problem:
                wrong += 1
                print(f"{task.name} {dtype} {task.key.workload} {dict(config)}: {problem}", flush=True)
    print(f"{dict(done)} configurations, {wrong} wrong, seed {given.seed}")


if __name__ == "__main__":
    main()
