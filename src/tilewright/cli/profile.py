"""`tilewright profile MODEL`: the time of each kernel, under the names of the source model's nodes."""

from __future__ import annotations

import click

from tilewright.cli.inputs import random_inputs
from tilewright.cli.options import load_or_compile, model_options


@click.command("profile")
@click.argument("model")
@click.option("--top", default=30, show_default=True, help="kernels to list")
@click.option("--repeat", default=20, show_default=True, help="runs of each kernel; the minimum counts")
@model_options
def profile_command(
    model: str, top: int, repeat: int, target: str, shapes: str | None, threads: int | None, no_cache: bool
) -> None:
    """Time every kernel of MODEL by itself and list the slowest."""
    executable = load_or_compile(model, target, shapes, threads, no_cache)
    rows = executable.profile(random_inputs(executable.inputs, 0), repeat=repeat)
    total = sum(row.seconds for row in rows)
    click.echo(f"{len(rows)} kernel calls, {total * 1e3:.3f} ms in all")
    for row in sorted(rows, key=lambda r: -r.seconds)[:top]:
        share = 100 * row.seconds / total if total else 0.0
        click.echo(f"{row.seconds * 1e3:9.3f} ms {share:5.1f} %  {row.kernel}  {row.source}")
