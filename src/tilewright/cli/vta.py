"""`tilewright vta …`: the accelerator; `explore` looks for the configuration that suits networks."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli.options import SECONDS, require_model


@click.group("vta")
def vta_command() -> None:
    """The accelerator VTA (docs/vta.md)."""


@vta_command.command("explore")
@click.argument("models", nargs=-1, required=True)
@click.option(
    "--budget", type=SECONDS, default=1.5, show_default=True,
    help="the largest area, in times the default configuration's",
)  # fmt: skip
@click.option("--keep", type=click.IntRange(min=1), default=10, show_default=True, help="chips that are tuned")
@click.option("--trials", type=click.IntRange(min=1), default=5, show_default=True, help="tilings tried for a layer")
@click.option("-o", "--output", metavar="DIR", default="vta_bundle", show_default=True, help="where to put the bundle")
def explore_command(models: tuple[str, ...], budget: float, keep: int, trials: int, output: str) -> None:
    """Find the chip on which MODELS are fastest, within an area, and write all that is needed to build it."""
    # only when it runs: `tilewright --help` reads this module
    from tilewright.frontend.formats.import_model import import_model
    from tilewright.vta.explore.bundle import write_bundle
    from tilewright.vta.explore.explore import DEFAULT, explore
    from tilewright.vta.explore.networks import work_of

    for model in models:
        require_model(model, "explore")
    found = explore([work_of(import_model(model, None)) for model in models], budget, keep, trials, click.echo)
    files = write_bundle(found, Path(output))
    click.echo(
        f"{found.chosen.candidate.name}: {found.speedup:.2f} times as fast as the default, at "
        f"{found.chosen.candidate.area / DEFAULT.area:.2f} times its area"
    )
    click.echo(f"{output}: {', '.join(files)}")
