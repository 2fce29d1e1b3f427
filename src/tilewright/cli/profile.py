"""`tilewright profile MODEL`: time, speed and schedule of each kernel, under the names of the source model's nodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from tilewright.cli.board import profile_on_board
from tilewright.cli.inputs import InputOptions, input_options
from tilewright.cli.options import ModelOptions, model_options
from tilewright.cli.outputs import check_writable, write_file
from tilewright.cli.profile_device import device_table
from tilewright.cli.profile_table import ProfileTable, schedule_text
from tilewright.cli.report import PROFILE_COLUMNS, PROFILE_SPARE, profile_page
from tilewright.cli.tables import print_table
from tilewright.cli.web import engine_note
from tilewright.runtime.chrome_trace import chrome_trace_text
from tilewright.runtime.model import Model
from tilewright.runtime.profile import KernelTime
from tilewright.support.load import other_load
from tilewright.support.trace import collect

_COLUMNS = (
    f"{'time':>12} {'predicted':>12} {'of all':>7} {'GFLOP/s':>8} {'of peak':>8}  {'bound':<10}  "
    "kernel  (schedule)  source nodes"
)

#: How many times the peak a template may reach: Winograd F(4x4, 3x3) multiplies 36 times in place of 144.
_FEWER_OPERATIONS = {"winograd": 4.0}

#: The clock of a processor changes: a peak measured a moment ago may be passed by so much.
_MARGIN = 1.1

#: Seconds of each further measurement of the peak, where a kernel seems to pass it: a busy machine lets it look low.
_AGAIN = (0.5, 1.0, 2.0)

_IMPOSSIBLE = (
    "shares of the peak marked ? are more than the processor can do: the machine was too busy while the peak, or the "
    "kernel, was measured; profile it again"
)


@click.command("profile")
@click.argument("model")
@click.option("--top", default=30, show_default=True, type=click.IntRange(min=1), help="kernels to list")
@click.option("--repeat", default=20, show_default=True, type=click.IntRange(min=1), help="runs; the minimum counts")
@click.option(
    "--trace", type=click.Path(dir_okay=False), help="write the time line, a track a worker, for Perfetto or Chrome"
)
@click.option("--report", metavar="FILE.html", help="also write the table as a page")
@click.option("--json", "json_path", metavar="FILE", help="also write the figures of all kernels to this file")
@input_options
@model_options
def profile_command(
    model: str,
    top: int,
    repeat: int,
    trace: str | None,
    report: str | None,
    json_path: str | None,
    inputs: InputOptions,
    options: ModelOptions,
) -> None:
    """Time every kernel of MODEL by itself and list the slowest, beside the multiply-add peak measured here.

    Kernels that multiply bytes or bfloat16 stand beside the peak of those. Operations are those of the mathematics:
    Winograd does fewer than it counts for, and may exceed the peak. The prediction is that of the cost model which
    chose the schedule, and the bound what it expects most time to go to.
    """
    for path in filter(None, (trace, report, json_path)):
        check_writable(path, model)
    with collect() as compiled:
        executable = inputs.open(model, options)
    given = inputs.one(executable, model, "a profile is one of one set of inputs", seeds=(0,))
    if options.board:
        profile_on_board(executable, given.arrays, trace)
        return
    rows = executable.profile(given.arrays, repeat=repeat)
    if trace is not None:
        write_file(trace, lambda path: path.write_text(chrome_trace_text(rows, compiled)))
    if json_path is not None:
        text = json.dumps({"threads": executable.threads, "kernels": [_figures(row) for row in rows]}, indent=1)
        write_file(json_path, lambda path: path.write_text(text + "\n"))
    table = device_table(executable, rows) if executable.device_facts else processor_table(executable, rows)
    for line in filter(None, (*table.heading, engine_note(executable))):
        click.echo(line)
    order = sorted(range(len(rows)), key=lambda index: -rows[index].seconds)[:top]
    slowest = [table.cells[index] for index in order]
    print_table(table.columns, slowest, [table.head, *map(table.line, slowest)], table.spare)
    if report is not None:
        page = profile_page(model, executable, rows, table.cells, table.columns, "; ".join(table.heading), compiled)
        write_file(report, lambda path: path.write_text(page, encoding="utf-8"))


def _figures(row: KernelTime) -> dict[str, Any]:
    """A kernel's time as JSON."""
    return {
        "kernel": row.kernel, "source": row.source, "seconds": row.seconds, "flops": row.flops, "bytes": row.nbytes,
        "schedule": schedule_text(row),
    }  # fmt: skip


def processor_table(model: Model, rows: Sequence[KernelTime]) -> ProfileTable:
    """Beside the multiply-add peak, which is measured; kernels of bytes or bfloat16 beside that of their products."""
    # only when it runs: `tilewright --help` reads this module
    from tilewright.cli.narrow_peak import narrow_peak
    from tilewright.cli.peak import fma_peak

    threads = model.threads
    with other_load() as load:
        peaks = {"": fma_peak(threads, seconds=0.3)}
        for kind in {operands(row) for row in rows} - {""}:
            peaks[kind] = narrow_peak(kind, threads, seconds=0.3)
    for seconds in _AGAIN:
        for kind in {operands(row) for row in rows if is_impossible(row, peaks[operands(row)])}:
            again = narrow_peak(kind, threads, seconds) if kind else fma_peak(threads, seconds)
            peaks[kind] = max(peaks[kind], again)
    total = sum(row.seconds for row in rows)
    expected = sum(predicted_seconds(row, threads) for row in rows)
    wrong = any(is_impossible(row, peaks[operands(row)]) for row in rows)
    heading = [
        f"{len(rows)} kernel calls, {total * 1e3:.3f} ms in all, predicted {expected * 1e3:.3f} ms, {threads} threads",
        f"measured multiply-add peak: {peaks['']:.1f} GFLOP/s",
        *(f"measured peak of products of {kind}: {peak:.1f} GOP/s" for kind, peak in peaks.items() if kind),
        *([f"note: {load.note}"] if load.note else []),
        *([f"note: {_IMPOSSIBLE}"] if wrong else []),
    ]
    cells = [kernel_cells(row, total, peaks[operands(row)], threads) for row in rows]
    return ProfileTable(heading, PROFILE_COLUMNS, PROFILE_SPARE, cells, _COLUMNS, _line)


def _line(cells: Sequence[str]) -> str:
    time, expected, share, speed, of_peak, bound, kernel, schedule, source = cells
    figures = f"{time:>12} {expected:>12} {share:>7} {speed:>8} {of_peak:>8}"
    return f"{figures}  {bound:<10}  {kernel}  ({schedule})  {source}"


def kernel_cells(row: KernelTime, total: float, peak: float, threads: int) -> tuple[str, ...]:
    """The cells of a line, in the order of its columns."""
    speed = row.flops / row.seconds / 1e9 if row.seconds else 0.0
    return (
        f"{row.seconds * 1e3:.3f} ms",
        f"{predicted_seconds(row, threads) * 1e3:.3f} ms",
        f"{100 * row.seconds / total if total else 0.0:.1f} %",
        f"{speed:.1f}",
        f"{100 * speed / peak:.1f} %" + "?" * is_impossible(row, peak),
        str(row.choice.get("bound", "–")).replace("_", " "),
        row.kernel,
        schedule_text(row),
        row.source,
    )


def operands(row: KernelTime) -> str:
    """The narrow type that a kernel multiplies, "int8" or "bfloat16"; "" for wider ones."""
    return str(row.choice.get("operands", ""))


def is_impossible(row: KernelTime, peak: float) -> bool:
    """True for a time in which no processor of that peak, in GFLOP/s, does what the kernel does."""
    template = str(row.choice.get("template", ""))
    fewer = next((factor for part, factor in _FEWER_OPERATIONS.items() if part in template), 1.0)
    return row.flops > fewer * _MARGIN * peak * 1e9 * row.seconds


def predicted_seconds(row: KernelTime, threads: int) -> float:
    """The cost model's time of a kernel on one thread, or on all cores; 0 for a copy, which has no schedule."""
    return float(row.choice.get("alone" if threads == 1 else "microseconds", 0.0)) * 1e-6
