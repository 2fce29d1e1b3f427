"""`tilewright profile MODEL`: time, speed and schedule of each kernel, under the names of the source model's nodes."""

from __future__ import annotations

import click

from tilewright.cli.inputs import random_inputs
from tilewright.cli.options import ModelOptions, model_options
from tilewright.cli.outputs import check_writable, write_file
from tilewright.runtime.chrome_trace import chrome_trace_text
from tilewright.runtime.profile import KernelTime

_COLUMNS = (
    f"{'time':>12} {'of all':>7} {'GFLOP/s':>8} {'of peak':>8} {'predicted':>9}  kernel  (schedule)  source nodes"
)


@click.command("profile")
@click.argument("model")
@click.option("--top", default=30, show_default=True, type=click.IntRange(min=1), help="kernels to list")
@click.option("--repeat", default=20, show_default=True, type=click.IntRange(min=1), help="runs; the minimum counts")
@click.option("--trace", type=click.Path(dir_okay=False), help="write the time line as a Chrome trace")
@model_options
def profile_command(model: str, top: int, repeat: int, trace: str | None, options: ModelOptions) -> None:
    """Time every kernel of MODEL by itself and list the slowest, beside the multiply-add peak measured here.

    Operations are those of the mathematics: Winograd does fewer than it counts for, and may exceed the peak. The
    prediction is that of the model which chose the schedule, for the innermost step alone.
    """
    # only when it runs: `tilewright --help` reads this module
    from tilewright.cli.peak import fma_peak

    if trace is not None:
        check_writable(trace, model)
    executable = options.open(model)
    rows = executable.profile(random_inputs(executable.inputs, 0), repeat=repeat)
    if trace is not None:
        write_file(trace, lambda path: path.write_text(chrome_trace_text(rows)))
    peak = fma_peak(executable.threads, seconds=0.3)
    total = sum(row.seconds for row in rows)
    click.echo(f"{len(rows)} kernel calls, {total * 1e3:.3f} ms in all, {executable.threads} threads")
    click.echo(f"measured multiply-add peak: {peak:.1f} GFLOP/s")
    click.echo(_COLUMNS)
    for row in sorted(rows, key=lambda r: -r.seconds)[:top]:
        click.echo(kernel_line(row, total, peak))


def kernel_line(row: KernelTime, total: float, peak: float) -> str:
    """One line of the table; `total` is in seconds, `peak` in GFLOP/s."""
    share = row.seconds / total if total else 0.0
    speed = row.flops / row.seconds / 1e9 if row.seconds else 0.0
    predicted = row.choice.get("predicted")
    expected = "–" if predicted is None else f"{100 * predicted:.0f} %"
    return (
        f"{row.seconds * 1e3:9.3f} ms {100 * share:5.1f} % {speed:8.1f} {100 * speed / peak:6.1f} % {expected:>9}  "
        f"{row.kernel}  ({schedule_text(row)})  {row.source}"
    )


def schedule_text(row: KernelTime) -> str:
    """The template of a kernel and its register tile, "conv2d_NCHWc 2 y 14 x: 28 by 1 x 16"."""
    from tilewright.topi.schedule.cpu.choice import Choice

    if not row.choice:
        return "copy"
    choice = Choice.from_json(dict(row.choice))
    return f"{choice.template} {choice.tile_text()}".strip()
