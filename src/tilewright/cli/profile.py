"""`tilewright profile MODEL`: time, speed and schedule of each kernel, under the names of the source model's nodes."""

from __future__ import annotations

import click

from tilewright.cli.inputs import InputOptions, input_options
from tilewright.cli.options import ModelOptions, model_options
from tilewright.cli.outputs import check_writable, write_file
from tilewright.cli.report import PROFILE_COLUMNS, PROFILE_SPARE, profile_page
from tilewright.cli.tables import print_table
from tilewright.runtime.chrome_trace import chrome_trace_text
from tilewright.runtime.profile import KernelTime
from tilewright.support.load import other_load
from tilewright.support.trace import collect

_COLUMNS = (
    f"{'time':>12} {'predicted':>12} {'of all':>7} {'GFLOP/s':>8} {'of peak':>8}  {'bound':<10}  "
    "kernel  (schedule)  source nodes"
)

#: How many times the multiply-add peak a template may reach: Winograd F(4x4, 3x3) multiplies 36 times in place of 144,
#: and a dot product of four bytes is one instruction.
_FEWER_OPERATIONS = {"winograd": 4.0, "dot": 4.0}

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
@input_options
@model_options
def profile_command(
    model: str,
    top: int,
    repeat: int,
    trace: str | None,
    report: str | None,
    inputs: InputOptions,
    options: ModelOptions,
) -> None:
    """Time every kernel of MODEL by itself and list the slowest, beside the multiply-add peak measured here.

    Operations are those of the mathematics: Winograd does fewer than it counts for, and may exceed the peak. The
    prediction is that of the cost model which chose the schedule, and the bound what it expects most time to go to.
    """
    # only when it runs: `tilewright --help` reads this module
    from tilewright.cli.peak import fma_peak

    for path in filter(None, (trace, report)):
        check_writable(path, model)
    with collect() as compiled:
        executable = inputs.open(model, options)
    given = inputs.one(executable, model, "a profile is one of one set of inputs", seeds=(0,))
    rows = executable.profile(given.arrays, repeat=repeat)
    if trace is not None:
        write_file(trace, lambda path: path.write_text(chrome_trace_text(rows, compiled)))
    with other_load() as load:
        peak = fma_peak(executable.threads, seconds=0.3)
    for seconds in _AGAIN:
        if not any(is_impossible(row, peak) for row in rows):
            break
        peak = max(peak, fma_peak(executable.threads, seconds))
    total = sum(row.seconds for row in rows)
    expected = sum(predicted_seconds(row, executable.threads) for row in rows)
    click.echo(
        f"{len(rows)} kernel calls, {total * 1e3:.3f} ms in all, predicted {expected * 1e3:.3f} ms, "
        f"{executable.threads} threads"
    )
    click.echo(f"measured multiply-add peak: {peak:.1f} GFLOP/s")
    if load.note:
        click.echo(f"note: {load.note}")
    if any(is_impossible(row, peak) for row in rows):
        click.echo(f"note: {_IMPOSSIBLE}")
    slowest = sorted(rows, key=lambda r: -r.seconds)[:top]
    lines = [_COLUMNS, *(kernel_line(row, total, peak, executable.threads) for row in slowest)]
    print_table(
        PROFILE_COLUMNS, [kernel_cells(row, total, peak, executable.threads) for row in slowest], lines, PROFILE_SPARE
    )
    if report is not None:
        cells = [kernel_cells(row, total, peak, executable.threads) for row in rows]
        page = profile_page(model, executable, rows, cells, peak, compiled)
        write_file(report, lambda path: path.write_text(page, encoding="utf-8"))


def kernel_line(row: KernelTime, total: float, peak: float, threads: int) -> str:
    """One line of the table; `total` is in seconds, `peak` in GFLOP/s."""
    time, expected, share, speed, of_peak, bound, kernel, schedule, source = kernel_cells(row, total, peak, threads)
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


def is_impossible(row: KernelTime, peak: float) -> bool:
    """True for a time in which no processor of that peak, in GFLOP/s, does what the kernel does."""
    template = str(row.choice.get("template", ""))
    fewer = next((factor for part, factor in _FEWER_OPERATIONS.items() if part in template), 1.0)
    return row.flops > fewer * _MARGIN * peak * 1e9 * row.seconds


def predicted_seconds(row: KernelTime, threads: int) -> float:
    """The cost model's time of a kernel on one thread, or on all cores; 0 for a copy, which has no schedule."""
    return float(row.choice.get("alone" if threads == 1 else "microseconds", 0.0)) * 1e-6


def schedule_text(row: KernelTime) -> str:
    """The template of a kernel and its configuration, "conv2d_NCHWc tile_rows=1 tile_blocks=2 tile_columns=14"."""
    from tilewright.topi.schedule.choice import Choice

    if not row.choice:
        return "copy"
    choice = Choice.from_json(row.choice)
    return f"{choice.template} {choice.config_text()}".strip()
