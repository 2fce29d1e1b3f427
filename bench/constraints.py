"""Running a model under constraints, each beside its plain case: two models by turns, one processor, an idle process,
a quota of processor time as containers have it.

    python bench/constraints.py MODEL.onnx [MODEL2.onnx]

Prints the ratio of each time to that of the plain case; 1.0 is as good as it gets. Under a quota it prints the mean
time of a run beside onnxruntime's, both with the number of threads that they choose themselves.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

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


#: Processors that the quotas allow; None is no quota.
QUOTAS = (None, 1.0, 0.5)
#: Where control groups can be made: folder, file of the limit, its text for so many microseconds of 100 ms.
HIERARCHIES = (
    (Path("/sys/fs/cgroup/cpu"), "cpu.cfs_quota_us", "{}"),
    (Path("/sys/fs/cgroup"), "cpu.max", "{} 100000"),
)


@contextmanager
def limited(processors: float) -> Iterator[Path]:
    """A new control group that may use so many processors; its folder. Raises OSError where none can be made."""
    parent, limit, text = next((h for h in HIERARCHIES if (h[0] / h[1]).exists()), HIERARCHIES[-1])
    group = parent / f"tilewright-bench-{os.getpid()}"
    group.mkdir()
    try:
        (group / limit).write_text(text.format(int(processors * 100_000)))
        yield group
    finally:
        group.rmdir()


def mean_time(run: Callable[[], object], seconds: float) -> float:
    """Mean seconds of a call, over as many as fit: a quota stops a process for part of every tenth of a second."""
    run()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        run()
        count += 1
    return (time.perf_counter() - start) / count


def measure_engine(engine: str, path: str, seconds: float) -> str:
    """Mean milliseconds of one engine in this process, and ours with its number of threads."""
    model = tw.compile(path)
    if engine == "tilewright":
        return f"{1e3 * mean_time(runner(model), seconds):.2f} ms with {model.threads} threads"
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    feed = {s.name: rng.standard_normal(s.static_shape).astype(s.numpy) for s in model.inputs}
    return f"{1e3 * mean_time(lambda: session.run(None, feed), seconds):.2f} ms"


def under_quota(engine: str, path: str, group: Path | None, seconds: float = 4.0) -> str:
    """The result of `measure_engine` in a process of its own, within `group`."""

    def enter() -> None:
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    command = [sys.executable, __file__, "--engine", engine, path, str(seconds)]
    return subprocess.run(command, preexec_fn=enter, capture_output=True, text=True, check=True).stdout.strip()


def quotas(path: str) -> None:
    """Print the times of both engines under each quota."""
    for processors in QUOTAS:
        name = "no quota" if processors is None else f"quota of {processors:g} processors"
        try:
            if processors is None:
                found = {engine: under_quota(engine, path, None) for engine in ("tilewright", "onnxruntime")}
            else:
                with limited(processors) as group:
                    found = {engine: under_quota(engine, path, group) for engine in ("tilewright", "onnxruntime")}
        except OSError as error:
            print(f"{name}: skipped, no control group can be made here ({error})")
            return
        print(f"{name}: {', '.join(f'{engine} {text}' for engine, text in found.items())}")


def main() -> None:
    """Measure the models named on the command line."""
    if sys.argv[1:2] == ["--engine"]:
        print(measure_engine(sys.argv[2], sys.argv[3], float(sys.argv[4])))
        return
    paths = sys.argv[1:3]
    models = [tw.compile(path) for path in (paths if len(paths) == 2 else paths * 2)]
    print(f"two models by turns: {by_turns(*map(runner, models)):.3f} of their times alone")
    print(f"two workers on one processor: {on_one_processor(models[0]):.3f} of one worker")
    print(f"idle: {idle_processor(models[0]):.4f} processors")
    quotas(paths[0])


if __name__ == "__main__":
    main()
