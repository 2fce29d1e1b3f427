"""Schedules found without a template beside those that the compiler has: operators with a template, and without.

    python bench/autotvm/sketches.py [--trials 48] [--threads 1] [--only NAME,...] [--layers C2,C6] [--smoke]

Each kernel that the compiler makes of a small module is searched by sketches; the best found and the compiler's own
schedule, the template's first choice, are then timed in turns. `--layers` adds convolutions of bench/layers.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from report import geometric_mean, table
from spaces import layer_tasks

from tilewright import relay
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.sketch.search import search
from tilewright.autotvm.sketch.task import SketchTask
from tilewright.autotvm.task.extract import network_calls
from tilewright.autotvm.task.points import Points, Position
from tilewright.autotvm.task.task import INPUT, OUTPUT, WEIGHT, Task
from tilewright.backend.lower import to_compute
from tilewright.driver.build import extract_tasks
from tilewright.driver.lower import lower_function
from tilewright.records.entry import TaskKey
from tilewright.relay.ir.expr import Constant, Function
from tilewright.relay.ir.symbolic import close_dims
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc


def modules() -> Mapping[str, Callable[[], Function]]:
    """Small modules, one kernel each."""
    draw = np.random.default_rng(0)

    def weight(*shape: int) -> Any:
        return relay.const(draw.standard_normal(shape).astype("float32"))

    def of(shape: tuple[int, ...], body: Callable[[Any], Any]) -> Callable[[], Function]:
        x = relay.var("x", shape=shape)
        return lambda: Function([x], body(x))

    return {
        "dense 128x512x512": of((128, 512), lambda x: relay.nn.dense(x, weight(512, 512))),
        "conv 3x3 64 at 28": of((1, 64, 28, 28), lambda x: relay.nn.conv2d(x, weight(64, 64, 3, 3), padding=(1, 1))),
        "transposed conv 64 at 14": of(
            (1, 64, 14, 14),
            lambda x: relay.nn.conv2d_transpose(x, weight(64, 32, 4, 4), strides=(2, 2), padding=(1, 1)),
        ),
        "softmax 128x1000": of((128, 1000), lambda x: relay.nn.softmax(x)),
        "layer norm 128x768": of((128, 768), lambda x: relay.nn.layer_norm(x, weight(768), weight(768))),
        "max pool 64 at 56": of((1, 64, 56, 56), lambda x: relay.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2))),
        "mean of 64x3136": of((64, 3136), lambda x: relay.mean(x, axis=1)),
    }


class Default(Task):
    """A kernel as the compiler schedules it."""

    def __init__(self, function: Function, target: Target) -> None:
        self.function, self.target = function, target

    @property
    def points(self) -> Points:
        raise NotImplementedError

    @property
    def default(self) -> int | None:
        return None

    def lower(self, config: Any) -> PrimFunc:
        return self.lower_reference()

    def loops(self, config: Any) -> PrimFunc:
        return self.lower_reference()

    def lower_reference(self) -> PrimFunc:
        return lower_function(self.function, "kernel", self.target)


class Two(Points):
    """The compiler's own schedule, and the one found."""

    knobs: Mapping[str, int] = {"found": 2}

    def __len__(self) -> int:
        return 2

    def config(self, point: int) -> int:
        return point

    def position(self, point: int) -> Position:
        return (point,)

    def at(self, position: Position) -> int | None:
        return position[0]

    def find(self, config: Any) -> int | None:
        return int(config["found"])

    def plain(self, point: int) -> Mapping[str, Any]:
        return {"found": point}


class Versus(Task):
    """The two of them, to be timed in turns."""

    def __init__(self, task: SketchTask, config: Any) -> None:
        self.task, self.found, self.name, self.target = task, config, task.name, task.target
        self.arguments, self.flops, self.key = task.arguments, task.flops, TaskKey("versus", "{}")

    @property
    def points(self) -> Points:
        return Two()

    @property
    def default(self) -> int | None:
        return 0

    def lower(self, config: Any) -> PrimFunc:
        return self.task.lower(self.found) if config else self.lower_reference()

    def loops(self, config: Any) -> PrimFunc:
        return self.lower(config)

    def lower_reference(self) -> PrimFunc:
        return self.task.lower_reference()


def largest_kernel(name: str, function: Function, target: Target) -> SketchTask:
    """The kernel of a module that works most."""
    mod = relay.IRModule.from_expr(function)
    calls = network_calls(mod, target)
    kernels, name_of = extract_tasks(calls)
    tasks = []
    for call in calls:
        own, _ = close_dims(next(kernel.function for kernel in kernels if kernel.name == name_of[call]))
        compute = to_compute(own)
        roles = [WEIGHT if isinstance(arg, Constant) else INPUT for arg in call.args]
        tensors = [*compute.inputs, *compute.outputs]
        roles += [OUTPUT] * (len(tensors) - len(roles))
        tasks.append(SketchTask(tensors, target, name, Default(own, target), roles))
    return max(tasks, key=lambda task: task.flops)


def compared(task: SketchTask, trials: int) -> tuple[float, float, float, int]:
    """Microseconds of the compiler's schedule, how many times as fast the best found is, seconds, and failures."""
    begun = time.monotonic()
    found = search(task, trials)
    spent = time.monotonic() - begun
    if found.config is None:
        raise SystemExit(f"{task.name}: no configuration works: {found.failures}")
    versus = Versus(task, found.config)
    with Measurer([versus], MeasureOptions(blocks=40)) as measurer:
        own, best = measurer.measure(versus, [0, 1])
    assert own.seconds is not None and best.seconds is not None, (own, best)
    return own.seconds * 1e6, 1 / best.ratio, spent, sum(found.failures.values())


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, compare, and print a row for each kernel as it is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=48)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--layers", default="")
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args(arguments)
    target = Target(f"cpu -cores={args.threads}")
    known = modules()
    wanted = [name for name in known if not args.only or any(part in name for part in args.only.split(","))]
    tasks = [largest_kernel(name, known[name](), target) for name in (wanted[3:4] if args.smoke else wanted)]
    layers = [name for name in args.layers.split(",") if name]
    for name, kernel in layer_tasks(layers, str(target)):
        tasks.append(SketchTask.of_kernel(kernel))
        tasks[-1].name = name
    print(target)
    rows, ratios = [], []
    for task in tasks:
        micro, ratio, spent, failures = compared(task, 4 if args.smoke else args.trials)
        ratios.append(ratio)
        rows.append([task.name, f"{micro:.1f}", f"{ratio:.2f}", f"{spent:.0f}", str(failures)])
        print(*rows[-1], sep=" | ", flush=True)
    print(table(["kernel", "ours us", "found is times as fast", "search s", "failures"], rows))
    print(f"geometric mean {geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
