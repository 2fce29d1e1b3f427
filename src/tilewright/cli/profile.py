"""`tilewright profile MODEL`: time, speed and schedule of each kernel, under the names of the source model's nodes."""

from __future__ import annotations

import click

from tilewright.cli.inputs import InputOptions, input_options
from tilewright.cli.options import ModelOptions, model_options
from tilewright.cli.outputs import check_writable, write_file
from tilewright.runtime.chrome_trace import chrome_trace_text
from tilewright.runtime.profile import KernelTime

_COLUMNS = (
    f"{'time':>12} {'predicted':>12} {'of all':>7} {'GFLOP/s':>8} {'of peak':>8}  {'bound':<10}  "
    "kernel  (schedule)  source nodes"
)


@click.command("profile")
@click.argument("model")
@click.option("--top", default=30, show_default=True, type=click.IntRange(min=1), help="kernels to list")
@click.option("--repeat", default=20, show_default=True, type=click.IntRange(min=1), help="runs; the minimum counts")
@click.option("--trace", type=click.Path(dir_okay=False), help="write the time line as a Chrome trace")
@input_options
@model_options
def profile_command(
    model: str, top: int, repeat: int, trace: str | None, inputs: InputOptions, options: ModelOptions
) -> None:
    """Time every kernel of MODEL by itself and list the slowest, beside the multiply-add peak measured here.

    Operations are those of the mathematics: Winograd does fewer than it counts for, and may exceed the peak. The
    prediction is that of the cost model which chose the schedule, and the bound what it expects most time to go to.
    """
    # only when it runs: `tilewright --help` reads this module
    from tilewright.cli.peak import fma_peak

    if trace is not None:
        check_writable(trace, model)
    executable = inputs.open(model, options)
    given = inputs.one(executable, model, "a profile is one of one set of inputs", seeds=(0,))
    rows = executable.profile(given.arrays, repeat=repeat)
    if trace is not None:
        write_file(trace, lambda path: path.write_text(chrome_trace_text(rows)))
    peak = fma_peak(executable.threads, seconds=0.3)
    total = sum(row.seconds for row in rows)
    expected = sum(predicted_seconds(row, executable.threads) for row in rows)
    click.echo(
        f"{len(rows)} kernel calls, {total * 1e3:.3f} ms in all, predicted {expected * 1e3:.3f} ms, "
        f"{executable.threads} threads"
    )
    click.echo(f"measured multiply-add peak: {peak:.1f} GFLOP/s")
    click.echo(_COLUMNS)
    for row in sorted(rows, key=lambda r: -r.seconds)[:top]:
        click.echo(kernel_line(row, total, peak, executable.threads))


def kernel_line(row: KernelTime, total: float, peak: float, threads: int) -> str:
    """One line of the table; `total` is in seconds, `peak` in GFLOP/s."""
    share = row.seconds / total if total else 0.0
    speed = row.flops / row.seconds / 1e9 if row.seconds else 0.0
    bound = str(row.choice.get("bound", "–")).replace("_", " ")
    expected = predicted_seconds(row, threads) * 1e3
    return (
        f"{row.seconds * 1e3:9.3f} ms {expected:9.3f} ms {100 * share:5.1f} % {speed:8.1f} "
        f"{100 * speed / peak:6.1f} %  {bound:<10}  {row.kernel}  ({schedule_text(row)})  {row.source}"
    )


def predicted_seconds(row: KernelTime, threads: int) -> float:
    """What the cost model expects of a kernel on one thread, or on all cores; 0 for a copy, which has no schedule."""
    return float(row.choice.get("alone" if threads == 1 else "microseconds", 0.0)) * 1e-6


def schedule_text(row: KernelTime) -> str:
    """The template of a kernel and its configuration, "conv2d_NCHWc tile_rows=1 tile_blocks=2 tile_columns=14"."""
    from tilewright.topi.schedule.cpu.choice import Choice

    if not row.choice:
        return "copy"
    choice = Choice.from_json(row.choice)
    return f"{choice.template} {choice.config_text()}".strip()
