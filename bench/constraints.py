"""Running a model under constraints, each beside its plain case: two models by turns, one processor, an idle process.

    python bench/constraints.py MODEL.onnx [MODEL2.onnx]

Prints the ratio of each time to that of the plain case; 1.0 is as good as it gets.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import numpy as np

import tilewright as tw
from tilewright.runtime.model import Model


def least(run: Callable[[], object], repeat: int = 20) -> float:
    """The least seconds of `repeat` calls."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def runner(model: Model) -> Callable[[], object]:
    """A call of `model` on random inputs."""
    rng = np.random.default_rng(0)
    inputs = {s.name: rng.standard_normal(s.static_shape).astype(s.numpy) for s in model.inputs}
    return lambda: model.run(inputs)


def by_turns(first: Callable[[], object], second: Callable[[], object]) -> float:
    """Seconds of both, called one after the other, over the sum of their seconds alone."""
    alone = least(first) + least(second)
    return least(lambda: (first(), second())) / alone


def bind(processors: set[int]) -> None:
    """Let all threads of this process run on `processors` only."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), processors)


def on_one_processor(model: Model) -> float:
    """Seconds with two workers on one processor over those with one worker there."""
    allowed = os.sched_getaffinity(0)
    run = runner(model)
    try:
        bind({min(allowed)})
        model.set_threads(1)
        single = least(run)
        model.set_threads(2)
        return least(run) / single
    finally:
        bind(allowed)
        model.set_threads(None)


def idle_processor(model: Model, seconds: float = 1.0) -> float:
    """Processor seconds a second that the process uses while nothing runs, after a run."""
    runner(model)()
    before = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - before) / seconds


def main() -> None:
    """Measure the models named on the command line."""
    paths = sys.argv[1:3]
    models = [tw.compile(path) for path in (paths if len(paths) == 2 else paths * 2)]
    print(f"two models by turns: {by_turns(*map(runner, models)):.3f} of their times alone")
    print(f"two workers on one processor: {on_one_processor(models[0]):.3f} of one worker")
    print(f"idle: {idle_processor(models[0]):.4f} processors")


if __name__ == "__main__":
    main()
