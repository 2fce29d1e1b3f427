"""`tilewright bench MODEL`: time a model beside other engines, interleaved in one process with the same threads."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from tilewright.cli.engines import check_engine, open_engine
from tilewright.cli.inputs import Arrays, random_inputs
from tilewright.cli.options import ModelOptions, model_options, require_model
from tilewright.cli.outputs import check_writable, write_file
from tilewright.runtime.model import Model

#: Calls of one engine in a row that count, in each round.
TIMED_CALLS = 3


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one inference: minimum and median over all timed calls."""

    engine: str
    version: str
    minimum_ms: float
    median_ms: float


def measure(runs: dict[str, Callable[[], Any]], seconds: float, rounds: int) -> dict[str, list[float]]:
    """Seconds of each timed call of each run, in interleaved rounds: `rounds` at most, `seconds` in all, five at least.

    The workers of an engine spin for a while after its last call (onnxruntime's do), and would take a core from the
    engine that comes next. So in each round every engine makes one call that is not timed, during which the others'
    workers fall asleep and its own data comes back into the caches, and then `TIMED_CALLS` that are:
    A' A A A B' B B B …
    """
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    deadline = time.perf_counter() + seconds
    for done in range(rounds):
        if done >= 5 and time.perf_counter() > deadline:
            break
        for name, run in runs.items():
            run()
            for _ in range(TIMED_CALLS):
                start = time.perf_counter()
                run()
                times[name].append(time.perf_counter() - start)
    return times


def bench(
    executable: Model,
    model: str,
    engines: Sequence[str],
    seconds: float,
    rounds: int,
    seed: int = 0,
    inputs: Arrays | None = None,
) -> list[Timing]:
    """Time `executable` and the engines on `inputs`, else on one set of random ones."""
    inputs = random_inputs(executable.inputs, seed) if inputs is None else inputs
    opened = [open_engine(name, model, inputs, executable.threads) for name in engines]
    runs: dict[str, Callable[[], Any]] = {"tilewright": lambda: executable.run(inputs)}
    runs |= {engine.name: engine.run for engine in opened}
    versions = {"tilewright": executable.version} | {engine.name: engine.version for engine in opened}
    times = measure(runs, seconds, rounds)
    return [
        Timing(name, versions[name], min(t) * 1e3, statistics.median(t) * 1e3) for name, t in times.items()
    ]  # fmt: skip


@click.command("bench")
@click.argument("model")
@click.option("--compare", default="", help="engines beside ours, e.g. onnxruntime,openvino")
@click.option("--seconds", default=5.0, show_default=True, help="time to spend measuring")
@click.option("--rounds", default=1000, show_default=True, type=click.IntRange(min=1), help="most rounds")
@click.option("--json", "json_path", help="also write the figures to this file")
@model_options
def bench_command(
    model: str, compare: str, seconds: float, rounds: int, json_path: str | None, options: ModelOptions
) -> None:
    """Time MODEL, alone or beside other engines: minimum and median of interleaved rounds."""
    engines = [name.strip() for name in compare.split(",") if name.strip()]
    for name in engines:
        check_engine(name)
    if engines:
        require_model(model, "compare")
    if json_path:
        check_writable(json_path, model)
    executable = options.open(model)
    timings = bench(executable, model, engines, seconds, rounds)
    ours = timings[0]
    click.echo(f"{model}, {executable.threads} threads")
    for timing in timings:
        ratio = f"   {timing.minimum_ms / ours.minimum_ms:5.2f}x of ours" if timing is not ours else ""
        label = f"{timing.engine} {timing.version}"
        click.echo(f"{label:28} minimum {timing.minimum_ms:9.3f} ms   median {timing.median_ms:9.3f} ms{ratio}")
    if json_path:
        record = {"model": model, "threads": executable.threads, "timings": [asdict(t) for t in timings]}
        write_file(json_path, lambda path: path.write_text(json.dumps(record, indent=2) + "\n"))
