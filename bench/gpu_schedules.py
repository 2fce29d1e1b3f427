"""Random configurations of the GPU templates, computed and compared with NumPy: every point of a space is a schedule.

    python bench/gpu_schedules.py [--count 200] [--target opencl] [--seed 0] [--dtypes float32] [--templates product]
                                  [--barriers 2]

Each turn draws an operator, sizes and a configuration of its search space, any with the same probability, builds it for
the target and compares the results. PoCL runs `product`, `reduce` and the plain `attention`; tensor cores need
`--target "cuda -emulate=1" --dtypes float16,int8` (`-arch=sm_90a` for those of warpgroups), which compiles each kernel
as C++ and runs the threads between barriers in both orders. `--barriers` then takes so many of the barriers and waits
of each text out, one at a time, and counts those whose absence shows in the results. Prints what differs, and counts.
"""

from __future__ import annotations

import argparse
import collections
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.autotvm.task.task import OUTPUT, KernelTask
from tilewright.codegen.build_device import emit_device
from tilewright.driver.lower import lower_function
from tilewright.errors import InternalError
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Expr
from tilewright.runtime.gpu.devices import open_device
from tilewright.runtime.gpu.emulation import EmulatedDevice
from tilewright.runtime.gpu.module import DeviceModule
from tilewright.support.dtype import DType
from tilewright.target import Target

#: Of the largest result: sums in other orders, exponentials of 16 bits.
_TOLERANCES = {"float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2, "int8": 0.0}
Array = np.ndarray[Any, Any]
Case = tuple[Callable[..., Expr], list[tuple[int, ...]]]
#: Statements by which threads wait: for each other, for copies, for products.
_WAITS = re.compile(r"(?:__sync(?:threads|warp)|tilewright_(?:wgmma_)?wait(?:_group)?<\d+>)\(\);")


def _sums(dtype: str) -> dict[str, str]:
    """The option of a product of this type."""
    return {"out_dtype": "int32"} if dtype == "int8" else {}


def dense(draw: random.Random, dtype: str) -> Case:
    """A dense layer with an epilogue."""
    rows, columns, depth = (draw.choice([4, 7, 16, 33, 64, 100, 128]) for _ in range(3))
    depth *= draw.choice([1, 1, 4])
    if dtype == "int8":
        return lambda x, w: relay.nn.relu(relay.nn.dense(x, w, **_sums(dtype))), [(rows, depth), (columns, depth)]
    return lambda x, w, b: relay.nn.relu(relay.add(relay.nn.dense(x, w), b)), [
        (rows, depth), (columns, depth), (columns,),
    ]  # fmt: skip


def batched(draw: random.Random, dtype: str) -> Case:
    """A stack of products."""
    batch, rows, columns, depth = draw.choice([2, 3]), *(draw.choice([4, 16, 20, 33, 64]) for _ in range(3))
    return lambda x, y: relay.nn.batch_matmul(x, y, **_sums(dtype)), [(batch, rows, depth), (batch, columns, depth)]


def convolution(draw: random.Random, dtype: str) -> Case:
    """A convolution, strided or not, grouped or not."""
    groups, size, kernel = draw.choice([1, 1, 2]), draw.choice([5, 8, 13]), draw.choice([1, 3])
    channels, filters = groups * draw.choice([4, 8, 16]), groups * draw.choice([4, 16, 24])
    options = {"strides": (draw.choice([1, 2]),) * 2, "padding": (kernel // 2,) * 2, "groups": groups, **_sums(dtype)}
    return lambda x, w: relay.nn.conv2d(x, w, **options), [
        (draw.choice([1, 2]), channels, size, size), (filters, channels // groups, kernel, kernel),
    ]  # fmt: skip


def attention(draw: random.Random, dtype: str) -> Case:
    """An attention with a mask, causal or neither, whose heads share keys or not."""
    batch, shared, group = draw.choice([1, 2]), draw.choice([1, 2]), draw.choice([1, 1, 3])
    rows, columns = draw.choice([1, 5, 16, 40, 70]), draw.choice([7, 32, 70, 129, 300])
    depth, width = draw.choice([16, 20, 64]), draw.choice([16, 24, 64])
    operands = [(batch, shared * group, rows, depth), (batch, shared, columns, depth), (batch, shared, columns, width)]
    kind, options = draw.choice(["plain", "masked", "causal"]), {"out_layout": draw.choice(["BHSD", "BSHD"])}
    masks = [(1, 1, rows, columns)] if kind == "masked" else []
    return lambda *x: relay.nn.attention(*x, scale=depth**-0.5, causal=kind == "causal", **options), operands + masks


def reduction(draw: random.Random, dtype: str) -> Case:
    """Sums or extremes along some axes."""
    shape = tuple(draw.choice([1, 3, 17, 64, 300]) for _ in range(3))
    axes = draw.choice([(0,), (1,), (2,), (1, 2), (0, 2)])
    reduce = draw.choice([relay.sum, relay.max, relay.mean])
    return lambda x: relay.exp(reduce(x, axis=axes)), [shape]


def rows(draw: random.Random, dtype: str) -> Case:
    """Softmax along the last axis."""
    return lambda x: relay.nn.softmax(x, axis=-1), [(draw.choice([1, 5, 64]), draw.choice([3, 100, 1000, 3000]))]


_PRODUCTS = (dense, batched, convolution)
_CASES = (*_PRODUCTS, attention, reduction, rows)


def drawn_task(draw: random.Random, target: Target, dtype: str) -> KernelTask | None:
    """A task of a drawn operator; None where it has no choices."""
    body, shapes = draw.choice(_PRODUCTS if dtype == "int8" else _CASES)(draw, dtype)
    params = [relay.var(f"x{i}", shape=shape, dtype=dtype) for i, shape in enumerate(shapes)]
    module = relay.IRModule.from_expr(relay.Function(params, body(*params)))
    tasks = extract_from_program(module, target)
    return tasks[0] if tasks else None


class Sample:
    """A task's arguments, and NumPy's results of them."""

    def __init__(self, task: KernelTask, seed: int) -> None:
        generator = np.random.default_rng(seed)

        def values(shape: tuple[int, ...], dtype: str) -> Array:
            if dtype == "int8":
                return generator.integers(-128, 128, shape).astype(dtype)
            return generator.uniform(-1, 1, shape).astype(DType(dtype).numpy)

        self.inputs = [values(a.shape, a.dtype) for a in task.arguments if a.role != OUTPUT]
        self.empty = [(a.shape, DType(a.dtype).numpy) for a in task.arguments if a.role == OUTPUT]
        self.wanted = [x.astype("float64") for x in interpret(task.function, self.inputs)]

    def error(self, module: DeviceModule) -> float:
        """The largest difference of `module`, as a share of the largest result; of both orders of emulated threads."""
        device, worst = module.api, 0.0
        for turned in (False, True) if isinstance(device, EmulatedDevice) else (False,):
            if isinstance(device, EmulatedDevice):
                device.turned = turned
            found = [np.zeros(shape, dtype) for shape, dtype in self.empty]
            module["kernel"](*self.inputs, *found)
            for one, other in zip(found, self.wanted, strict=True):
                difference = np.abs(one.astype("float64") - other).max() / max(1.0, np.abs(other).max())
                worst = max(worst, float(difference) if np.isfinite(difference) else np.inf)
        return worst


class Count:
    """Counts of one run of the bench, and what it does with a configuration."""

    def __init__(self, target: Target, barriers: int) -> None:
        self.target, self.barriers = target, barriers
        self.done = collections.Counter[str]()
        self.wrong = self.removed = self.noticed = 0
        self.device = open_device(target.kind, bool(target.emulate), target.ordinal)

    def check(self, task: KernelTask, config: dict[str, Any], sample: Sample, tolerance: float) -> Iterator[str]:
        """The fault of a configuration, and each of its barriers that nothing shows the absence of."""
        self.done[task.key.template] += 1
        func = lower_function(task.function, "kernel", self.target, config)
        source, functions = emit_device([func], self.target)
        device = (self.target.kind, bool(self.target.emulate))

        def error(text: str) -> float:
            return sample.error(DeviceModule(self.device, text, functions, device))

        try:
            first = error(source)
            problem = f"off by {first:.1e}" if not first <= tolerance else ""
        except Exception as failure:  # all are shown
            problem = f"{type(failure).__name__}: {str(failure)[:300]}"
        if problem:
            self.wrong += 1
            yield problem
            return
        for without, line in _without_waits(source, self.barriers):
            self.removed += 1
            try:
                noticed = not error(without) <= tolerance
            except InternalError:  # threads that wait for others
                noticed = True
            self.noticed += noticed
            if not noticed:
                yield f"right without {line}"


def _without_waits(source: str, count: int) -> Iterator[tuple[str, str]]:
    """The text without one of its waits, `count` times, and that wait's line with those around it."""
    found = [match for match in _WAITS.finditer(source) if "asm" not in source[: match.start()].rpartition("\n")[2]]
    for match in random.Random(0).sample(found, min(count, len(found))):
        lines = source[: match.start()].splitlines()
        around = " / ".join(line.strip() for line in [*lines[-2:], match[0], *source[match.end() :].splitlines()[1:2]])
        # the comment has the emulation run the threads as before
        yield f"{source[: match.start()]}/* no sync */;{source[match.end() :]}", f"line {len(lines)}: {around}"


def main() -> None:
    """Draw, compute, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="configurations of each template")
    parser.add_argument("--target", default="opencl")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--templates", help="only these, separated by commas")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--barriers", type=int, default=0, help="taken out of each text, one at a time")
    given = parser.parse_args()
    draw, target = random.Random(given.seed), Target(given.target)
    count, start, misses = Count(target, given.barriers), time.monotonic(), 0
    while time.monotonic() - start < given.seconds and misses < 100:
        dtype = draw.choice(given.dtypes.split(","))
        task = drawn_task(draw, target, dtype)
        template = "" if task is None else task.key.template
        unwanted = given.templates is not None and template not in given.templates.split(",")
        if task is None or unwanted or count.done[template] >= given.count:
            misses += 1
            continue
        misses = 0
        sample = Sample(task, draw.randrange(1 << 30))
        for point in draw.sample(range(len(task.points)), min(10, len(task.points))):
            config = dict(task.points.config(point))
            for problem in count.check(task, config, sample, _TOLERANCES[dtype]):
                print(f"{task.name} {dtype} {task.key.workload} {config}: {problem}", flush=True)
            if time.monotonic() - start > given.seconds:
                break
    waits = f", {count.noticed} of {count.removed} absent waits noticed" if given.barriers else ""
    print(f"{dict(count.done)} configurations, {count.wrong} wrong{waits}, seed {given.seed}")


if __name__ == "__main__":
    main()
