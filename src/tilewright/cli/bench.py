"""`tilewright bench MODEL`: time a model beside other engines, interleaved in one process with the same threads."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import click

from tilewright.cli.board import count_on_board
from tilewright.cli.inputs import Arrays, InputOptions, input_options, random_inputs
from tilewright.cli.memory import memory_of
from tilewright.cli.options import (
    SECONDS,
    ModelOptions,
    lent_board_options,
    model_options,
    require_model,
    symbolic_options,
)
from tilewright.cli.outputs import check_writable, write_file
from tilewright.cli.reference import reference_of
from tilewright.cli.report import bench_page
from tilewright.cli.tables import print_table
from tilewright.cli.timing import TIMING_COLUMNS, TIMING_SPARE, Timing, measure, timing_cells, timing_lines
from tilewright.cli.web import engine_note
from tilewright.frontend.reference import Engine
from tilewright.runtime.executor import Executable
from tilewright.runtime.model import Model
from tilewright.runtime.specializations import HOT_RUNS


@dataclass(frozen=True)
class Bench:
    """The timings of the engines that run the model, ours first; of each other why it does not.

    `memory` is in bytes, where it was measured; `load` says in a sentence that the machine was busy.
    """

    timings: list[Timing]
    failures: dict[str, str] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    load: str = ""
    interrupted: bool = False


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
            engine = reference_of(model).open(name, sets[0], executable.threads, exact=False)
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
            engine.feed(given[0])

    clocks = {"tilewright": lambda count: executable.time(given[0], count, 0)} if executable.executor == "web" else {}
    found = measure(runs, seconds, rounds, begin if len(sets) > 1 else None, clocks)
    timings = [Timing.of(name, versions[name], taken) for name, taken in found.times.items()]
    return Bench(timings, failures, load=found.load, interrupted=found.interrupted)


def _specialized(executable: Model, sets: Sequence[Arrays]) -> None:
    """Run each set of inputs until its sizes have an executable of their own, as far as the bound allows."""
    for arrays in sets:
        for _ in range(HOT_RUNS):
            executable.run(arrays)
        if isinstance(executable, Executable):
            executable.wait_specialized()


@click.command("bench")
@click.argument("model")
@click.option("--compare", default="", help="engines beside ours, e.g. onnxruntime,openvino")
@click.option("--seconds", default=5.0, show_default=True, type=SECONDS, help="time to spend measuring")
@click.option("--rounds", default=1000, show_default=True, type=click.IntRange(min=1), help="most rounds")
@click.option("--memory", is_flag=True, help="also measure the memory that the model takes, in processes of their own")
@click.option("--json", "json_path", help="also write the figures to this file")
@click.option("--report", "report_path", metavar="FILE.html", help="also write them as a page")
@input_options
@model_options
@lent_board_options
@symbolic_options
def bench_command(
    model: str,
    compare: str,
    seconds: float,
    rounds: int,
    memory: bool,
    json_path: str | None,
    report_path: str | None,
    inputs: InputOptions,
    options: ModelOptions,
) -> None:
    """Time MODEL, alone or beside other engines: interleaved rounds, with the same number of threads.

    Ctrl-C ends the rounds early; what was measured until then is printed.
    """
    engines = [name.strip() for name in compare.split(",") if name.strip()]
    if engines:
        require_model(model, "compare")
    for name in engines:
        reference_of(model).check(name)
    for path in filter(None, (json_path, report_path)):
        check_writable(path, model)
    executable, inputs = inputs.open(model, options), inputs.at_sizes(options)
    sets = [given.arrays for given in inputs.sets(executable, model, seeds=(0,))]
    if options.board:
        count_on_board(executable, model, sets, json_path)
        return
    if options.specialize:
        _specialized(executable, sets)
    result = bench(executable, model, engines, seconds, rounds, sets)
    if memory and not result.interrupted:
        working = [name for name in engines if name not in result.failures]
        result = replace(result, memory=memory_of(executable, model, working, sets[0]))
    click.echo(f"{model}, {engine_note(executable) or f'{executable.threads} threads'}")
    print_table(TIMING_COLUMNS, timing_cells(result.timings), timing_lines(result.timings), TIMING_SPARE)
    for name, nbytes in result.memory.items():
        click.echo(f"{name:28} memory {nbytes / 2**20:10.1f} MiB")
    for name, reason in result.failures.items():
        click.echo(f"{name} is left out: {reason}", err=True)
    if result.load:
        click.echo(f"note: {result.load}")
    if json_path:
        record = {"model": model, "threads": executable.threads, **asdict(result)}
        write_file(json_path, lambda path: path.write_text(json.dumps(record, indent=2) + "\n"))
    if report_path:
        page = bench_page(model, executable, result.timings, result.failures, result.memory, result.load)
        write_file(report_path, lambda path: path.write_text(page, encoding="utf-8"))
    if result.interrupted:
        click.echo(f"after {result.timings[0].calls} timed calls of each engine:", err=True)
        raise click.Abort
