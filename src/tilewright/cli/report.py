"""The pages that `bench --report` and `profile --report` write: what was measured, of what, and on what."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence

from tilewright.cli.page import Bar, Cell, Page
from tilewright.cli.timing import TIMING_COLUMNS, Timing, timing_cells
from tilewright.runtime.model import Model
from tilewright.runtime.profile import KernelTime
from tilewright.runtime.signature import describe
from tilewright.support.trace import Report

#: What stands in a line of a profile.
PROFILE_COLUMNS = ("time", "predicted", "of all", "GFLOP/s", "of peak", "bound", "kernel", "schedule", "source nodes")

#: Columns of it that a narrow terminal does without, in the order in which they go.
PROFILE_SPARE = ("GFLOP/s", "bound", "schedule", "predicted", "of peak", "kernel", "of all")


def bench_page(
    path: str,
    model: Model,
    timings: Sequence[Timing],
    failures: Mapping[str, str],
    memory: Mapping[str, int],
    load: str = "",
) -> str:
    """The report of `bench` as HTML. `memory` is in bytes, by engine; empty where it was not measured.

    `load` says that the machine was busy.
    """
    page = _begun("Times", path, model)
    slowest = max(timing.median_ms for timing in timings)
    rows: list[tuple[Cell, ...]] = [
        (
            *cells,
            *([f"{memory[timing.engine] / 2**20:.1f}" if timing.engine in memory else "–"] if memory else []),
            Bar(timing.median_ms / slowest),
        )
        for timing, cells in zip(timings, timing_cells(timings))
    ]
    page.table([*TIMING_COLUMNS, *(["memory, MiB"] if memory else []), "median"], rows)
    page.text(
        f"{timings[0].calls} timed calls of each engine, in interleaved rounds: in each, every engine makes one call "
        "that is not timed and then some that are. 90 % and 99 %: the time that so many of the calls stay below."
    )
    if load:
        page.text(load.capitalize() + ".")
    for name, reason in failures.items():
        page.text(f"{name} is left out: {reason}")
    return page.html()


def profile_page(
    path: str,
    model: Model,
    rows: Sequence[KernelTime],
    lines: Sequence[Sequence[str]],
    columns: Sequence[str],
    heading: str,
    compiled: Report,
) -> str:
    """The report of `profile` as HTML: `lines` are the cells of the table, one for each kernel call of `rows`.

    `heading` has the sum of the times and the peaks, `compiled` what the compilation took.
    """
    page = _begun("Kernels", path, model)
    page.text(heading)
    order = sorted(range(len(rows)), key=lambda index: -rows[index].seconds)
    longest = max((row.seconds for row in rows), default=1.0)
    page.table(
        [columns[0], "", *columns[1:]],
        [(lines[index][0], Bar(rows[index].seconds / longest), *lines[index][1:]) for index in order],
    )
    if compiled.spans:
        page.heading("Compiling")
        stages = compiled.rows()
        page.table(
            ["stage", "seconds", "times", ""],
            [
                (
                    " / ".join(row.path),
                    f"{row.seconds:.3f}",
                    str(row.count),
                    Bar(row.seconds / (compiled.seconds or 1.0)),
                )
                for row in stages
            ],
        )
    return page.html()


def _begun(what: str, path: str, model: Model) -> Page:
    """A page that says of what and on what the figures are."""
    page = Page(f"{what} of {path}")
    page.table(
        ["", ""],
        [
            ("inputs", describe(model.inputs)),
            ("outputs", describe(model.outputs)),
            ("threads", str(model.threads)),
            ("executor", model.executor),
            ("target", str(model.target)),
            (
                "system",
                f"{platform.system()} {platform.release()} {platform.machine()}, Python {platform.python_version()}",
            ),
            ("tilewright", model.version),
        ],
    )
    return page
