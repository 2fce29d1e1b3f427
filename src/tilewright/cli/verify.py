"""`tilewright verify MODEL`: compare the outputs with another engine's on given or fresh random inputs."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator

import click

from tilewright.cli.bounds import Bounds, bounds_of
from tilewright.cli.comparison import Difference, compare_values
from tilewright.cli.inputs import InputOptions, input_options
from tilewright.cli.options import (
    BOUND,
    ModelOptions,
    check_option,
    exact_rounding_option,
    model_options,
    require_model,
    symbolic_options,
)
from tilewright.cli.reference import advice, check_against, reference_of
from tilewright.cli.rounding import rounding_note
from tilewright.frontend.reference import Engine
from tilewright.runtime.model import Model


@click.command("verify")
@click.argument("model")
@click.option("--against", help="the engine to compare with  [default: the format's own; for ONNX onnxruntime]")
@click.option("--rtol", type=BOUND, help="bound on max|ours - ref| / max|ref|  [default: by data type]")
@click.option("--atol", type=BOUND, help="absolute part of the bound  [default: by data type]")
@click.option("--at", "values", multiple=True, metavar="VALUE", help="compare this inner value instead of the outputs")
@check_option
@exact_rounding_option
@input_options
@model_options
@symbolic_options
def verify_command(
    model: str,
    against: str | None,
    rtol: float | None,
    atol: float | None,
    values: tuple[str, ...],
    check: bool,
    exact_rounding: bool,
    inputs: InputOptions,
    options: ModelOptions,
) -> None:
    """Check MODEL against another engine; exit status 1 if an output differs by more than the bound."""
    require_model(model, "verify")
    whole = reference_of(model)
    against = check_against(whole, against)
    with tempfile.TemporaryDirectory() as folder:
        path = whole.cut_at(values, folder) if values else model
        options.refuse_choice("verify")
        executable = inputs.open(path, options, check=check, exact_rounding=exact_rounding)
        inputs = inputs.at_sizes(options)
        doubtful = reference_of(path).inexact_nodes(against)
        if doubtful:
            click.echo(
                f"note     this processor has no dot products of bytes (VNNI): sums of uint8 x int8 products saturate "
                f"in {against}; nodes that have them: {len(doubtful)}, the first {doubtful[0]}"
            )
        found = []
        for one in _compare_engines(
            executable, path, model, against, inputs, bounds_of(path, rtol, atol, options.precision)
        ):
            click.echo(one.line())
            found.append(one)
    wrong = [one for one in found if not one.passed]
    if wrong:
        click.echo(f"the bound is {wrong[0].bound}", err=True)
        note = rounding_note(reference_of(path).nodes(), (one.name for one in wrong))
        if note:
            click.echo(note, err=True)
        if against in whole.engines_with_values:
            click.echo(
                f"the first node that differs: tilewright bisect {shlex.quote(model)} --against {against}", err=True
            )
        if doubtful:
            click.echo(advice(against, doubtful, model), err=True)
    elif not any(one.compared for one in found):
        click.echo("nothing was compared; choose other inputs with --input or --seed, or a smaller --atol", err=True)
    if wrong or not any(one.compared for one in found):
        click.get_current_context().exit(1)


def _compare_engines(
    executable: Model, path: str, shown: str, against: str, inputs: InputOptions, bounds: Bounds
) -> Iterator[Difference]:
    """Run both engines on each set of inputs; the differences of each output."""
    reference: Engine | None = None
    for given in inputs.sets(executable, path):
        results = executable.run(given.arrays)
        if reference is None:
            reference = reference_of(path).open(against, given.arrays, executable.threads)
        reference.feed(given.arrays)
        click.echo(f"{shown} against {reference.name} {reference.version}, {given.origin}")
        for spec, ours, theirs in zip(executable.outputs, results, reference.run(), strict=True):
            yield from compare_values(spec.name, ours, theirs, bounds)
