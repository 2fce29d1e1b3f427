"""`tilewright profile MODEL`: the time of each kernel, under the names of the source model's nodes."""

from __future__ import annotations

import click

from tilewright.cli.inputs import random_inputs
from tilewright.cli.options import ModelOptions, model_options


@click.command("profile")
@click.argument("model")
@click.option("--top", default=30, show_default=True, type=click.IntRange(min=1), help="kernels to list")
@click.option("--repeat", default=20, show_default=True, type=click.IntRange(min=1), help="runs; the minimum counts")
@model_options
def profile_command(model: str, top: int, repeat: int, options: ModelOptions) -> None:
    """Time every kernel of MODEL by itself and list the slowest."""
    executable = options.open(model)
    rows = executable.profile(random_inputs(executable.inputs, 0), repeat=repeat)
    total = sum(row.seconds for row in rows)
    click.echo(f"{len(rows)} kernel calls, {total * 1e3:.3f} ms in all, {executable.threads} threads")
    for row in sorted(rows, key=lambda r: -r.seconds)[:top]:
        share = 100 * row.seconds / total if total else 0.0
        click.echo(f"{row.seconds * 1e3:9.3f} ms {share:5.1f} %  {row.kernel}  {row.source}")
