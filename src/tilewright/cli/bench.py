"""`tilewright bench MODEL`: time a model beside other engines, interleaved in one process with the same threads."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import click
import numpy as np

from tilewright.cli.engines import Engine, check_engine, open_engine
from tilewright.cli.inputs import Arrays, InputOptions, input_options, random_inputs
from tilewright.cli.options import ModelOptions, model_options, require_model
from tilewright.cli.outputs import check_writable, write_file
from tilewright.runtime.model import Model

#: Calls of one engine in a row that count, in each round.
TIMED_CALLS = 3


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one inference, over `calls` timed calls, and how many run in a second, one after another."""

    engine: str
    version: str
    minimum_ms: float
    median_ms: float
    p90_ms: float
    p99_ms: float
    per_second: float
    calls: int

    @classmethod
    def of(cls, engine: str, version: str, seconds: Sequence[float]) -> Timing:
        """From the seconds of each call."""
        low, p50, p90, p99 = (float(q) * 1e3 for q in np.quantile(seconds, (0.0, 0.5, 0.9, 0.99)))
        return cls(engine, version, low, p50, p90, p99, len(seconds) / sum(seconds), len(seconds))


@dataclass(frozen=True)
class Bench:
    """The timings of the engines that run the model, ours first; of each other why it does not."""

    timings: list[Timing]
    failures: dict[str, str] = field(default_factory=dict)


def measure(
    runs: dict[str, Callable[[], Any]], seconds: float, rounds: int, begin: Callable[[int], None] | None = None
) -> dict[str, list[float]]:
    """Seconds of each timed call of each run, in interleaved rounds: `rounds` at most, `seconds` in all, five at least.

    The workers of an engine spin for a while after its last call (onnxruntime's do), and would take a core from the
    engine that comes next. So in each round every engine makes one call that is not timed, during which the others'
    workers fall asleep and its own data comes back into the caches, and then `TIMED_CALLS` that are:
    A' A A A B' B B B …

    `begin` is called before each round with its number.
    """
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    deadline = time.perf_counter() + seconds
    for done in range(rounds):
        if done >= 5 and time.perf_counter() > deadline:
            break
        if begin is not None:
            begin(done)
        for name, run in runs.items():
            run()
            for _ in range(TIMED_CALLS):
                start = time.perf_counter()
                run()
                times[name].append(time.perf_counter() - start)
    return times


def bench(
    executable: Model, model: str, engines: Sequence[str], seconds: float, rounds: int, sets: Sequence[Arrays] = ()
) -> Bench:
    """Time `executable` and the engines on `sets` of inputs in turn, or on one that is random.

    An engine that does not take the model, or does not run it, is left out.
    """
    sets = sets or [random_inputs(executable.inputs, 0)]
    given = [sets[0]]
    opened: dict[str, Engine] = {}
    failures: dict[str, str] = {}
    for name in engines:
        try:
            engine = open_engine(name, model, sets[0], executable.threads)
            engine.run()
            opened[name] = engine
        except Exception as error:  # The engines' bindings have no exception class in common.
            failures[name] = (str(error).strip().splitlines() or [type(error).__name__])[-1]
    runs: dict[str, Callable[[], Any]] = {"tilewright": lambda: executable.run(given[0])}
    runs |= {engine.name: engine.run for engine in opened.values()}
    versions = {"tilewright": executable.version} | {engine.name: engine.version for engine in opened.values()}

    def begin(done: int) -> None:
        given[0] = sets[done % len(sets)]
        for engine in opened.values():
            engine.give(given[0])

    times = measure(runs, seconds, rounds, begin if len(sets) > 1 else None)
    return Bench([Timing.of(name, versions[name], taken) for name, taken in times.items()], failures)


@click.command("bench")
@click.argument("model")
@click.option("--compare", default="", help="engines beside ours, e.g. onnxruntime,openvino")
@click.option("--seconds", default=5.0, show_default=True, help="time to spend measuring")
@click.option("--rounds", default=1000, show_default=True, type=click.IntRange(min=1), help="most rounds")
@click.option("--json", "json_path", help="also write the figures to this file")
@input_options
@model_options
def bench_command(
    model: str,
    compare: str,
    seconds: float,
    rounds: int,
    json_path: str | None,
    inputs: InputOptions,
    options: ModelOptions,
) -> None:
    """Time MODEL, alone or beside other engines: interleaved rounds, with the same number of threads."""
    engines = [name.strip() for name in compare.split(",") if name.strip()]
    for name in engines:
        check_engine(name)
    if engines:
        require_model(model, "compare")
    if json_path:
        check_writable(json_path, model)
    executable = inputs.open(model, options)
    sets = [given.arrays for given in inputs.sets(executable, model, seeds=(0,))]
    result = bench(executable, model, engines, seconds, rounds, sets)
    click.echo(f"{model}, {executable.threads} threads")
    for line in timing_lines(result.timings):
        click.echo(line)
    for name, reason in result.failures.items():
        click.echo(f"{name} is left out: {reason}", err=True)
    if json_path:
        record = {"model": model, "threads": executable.threads, **asdict(result)}
        write_file(json_path, lambda path: path.write_text(json.dumps(record, indent=2) + "\n"))


def timing_lines(timings: Sequence[Timing]) -> Iterator[str]:
    """A line for each engine, the others with how much of ours, the first, their least time is."""
    for timing in timings:
        ratio = f"   {timing.minimum_ms / timings[0].minimum_ms:5.2f}x of ours" if timing is not timings[0] else ""
        yield (
            f"{f'{timing.engine} {timing.version}':28} minimum {timing.minimum_ms:9.3f} ms   "
            f"median {timing.median_ms:9.3f} ms   90 % {timing.p90_ms:9.3f} ms   99 % {timing.p99_ms:9.3f} ms   "
            f"{timing.per_second:9.1f} a second{ratio}"
        )
