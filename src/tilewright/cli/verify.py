"""`tilewright verify MODEL`: compare the outputs with another engine's on given or fresh random inputs.

Value by value within bounds, or, for models whose codes or 16-bit floats round more than bounds allow, one loss over
all inputs beside a budget.
"""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import click
import numpy as np

from tilewright.cli.inputs import InputOptions, input_options
from tilewright.cli.options import (
    BOUND,
    ModelOptions,
    Share,
    check_option,
    exact_rounding_option,
    lent_board_options,
    model_options,
    require_model,
    symbolic_options,
)
from tilewright.cli.outputs import check_writable, write_file
from tilewright.cli.reference import advice, check_against, reference_of
from tilewright.cli.rounding import rounding_note
from tilewright.cli.web import engine_note
from tilewright.errors import InputError
from tilewright.frontend.bounds import Bounds, bounds_of
from tilewright.frontend.comparison import compare_values
from tilewright.frontend.reference import Engine
from tilewright.runtime.model import Model

#: Those of `tilewright.quantize.loss` that need no labels.
_MEASURES = ("relative", "argmax")


@click.command("verify")
@click.argument("model")
@click.option("--against", help="the engine to compare with  [default: the format's own; for ONNX onnxruntime]")
@click.option("--rtol", type=BOUND, help="bound on max|ours - ref| / max|ref|  [default: by data type]")
@click.option("--atol", type=BOUND, help="absolute part of the bound  [default: by data type]")
@click.option(
    "--max-loss", type=Share(), help="pass by a budget in place of bounds: the loss over all inputs, e.g. 0.5%"
)
@click.option("--loss", "measure", help="relative or argmax  [default: by results]; with --max-loss")
@click.option("--original", metavar="MODEL", help="what the engine runs, e.g. the float model; with --max-loss")
@click.option("--json", "json_path", metavar="FILE", help="also write the outcome to this file")
@click.option("--at", "values", multiple=True, metavar="VALUE", help="compare this inner value instead of the outputs")
@check_option
@exact_rounding_option
@input_options
@model_options
@lent_board_options
@symbolic_options
def verify_command(
    model: str,
    against: str | None,
    rtol: float | None,
    atol: float | None,
    max_loss: float | None,
    measure: str | None,
    original: str | None,
    json_path: str | None,
    values: tuple[str, ...],
    check: bool,
    exact_rounding: bool,
    inputs: InputOptions,
    options: ModelOptions,
) -> None:
    """Check MODEL against another engine; exit status 1 if an output differs by more than the bound, or the budget."""
    require_model(model, "verify")
    _check_budget(max_loss, measure, original, values)
    if json_path is not None:
        check_writable(json_path, model)
    whole = reference_of(original or model)
    against = check_against(whole, against)
    with tempfile.TemporaryDirectory() as folder:
        path = whole.cut_at(values, folder) if values else model
        options.refuse_choice("verify")
        executable = inputs.open(path, options, check=check, exact_rounding=exact_rounding)
        inputs = inputs.at_sizes(options)
        doubtful = reference_of(original or path).inexact_nodes(against)
        if doubtful:
            click.echo(
                f"note     this processor has no dot products of bytes (VNNI): sums of uint8 x int8 products saturate "
                f"in {against}; nodes that have them: {len(doubtful)}, the first {doubtful[0]}"
            )
        runs = _runs_of_engines(executable, path, original or path, model, against, inputs)
        if max_loss is not None:
            outcome = _within_budget(executable, runs, max_loss, measure)
        else:
            bounds = bounds_of(reference_of(path), rtol, atol, options.precision)
            outcome = _within_bounds(executable, runs, bounds, path, model, against, doubtful)
    if json_path is not None:
        text = json.dumps({**outcome, "against": against}, indent=2)
        write_file(json_path, lambda file: file.write_text(text + "\n"))
    if not outcome["passed"]:
        click.get_current_context().exit(1)


def _check_budget(max_loss: float | None, measure: str | None, original: str | None, values: tuple[str, ...]) -> None:
    """Raise `InputError` for options of a budget without one, or that do not go with it."""
    for option, value in (("--loss", measure), ("--original", original)):
        if value is not None and max_loss is None:
            raise InputError(f"{option} says how a loss is measured; add --max-loss, such as --max-loss 0.5%")
    if original is not None and values:
        raise InputError("--at names values of MODEL, and the engine runs another with --original; leave one out")
    if measure not in (None, *_MEASURES):
        raise InputError(f"--loss {measure} is none of {', '.join(_MEASURES)}")


Runs = Iterator[tuple[Sequence[Any], Sequence[Any]]]


def _within_budget(executable: Model, runs: Runs, max_loss: float, measure: str | None) -> dict[str, Any]:
    """Print the loss over all runs beside the budget; the outcome, which has `passed` if it is no more."""
    # only for this option: the quantizer comes with the compiler
    from tilewright.quantize.loss import Loss, default_measure

    loss = Loss()
    for ours, theirs in runs:
        if not all(isinstance(value, np.ndarray) for value in (*ours, *theirs)):
            raise InputError("a loss is one of tensors, and a result is a sequence, a map or nothing; use bounds")
        for spec, mine, other in zip(executable.outputs, ours, theirs, strict=True):
            if mine.shape != other.shape:
                raise InputError(f"{spec.name} is {list(mine.shape)}, and {list(other.shape)} by the engine")
        loss.add(theirs, ours)
        rows = [value.shape for value in ours]
    measure = measure or default_measure(rows, None)
    found = loss.by(measure)
    verdict = "ok" if found <= max_loss else "DIFFERS"
    click.echo(f"{verdict:8} {measure} loss {found:.3%}, budget {max_loss:.3%}")
    return {"passed": bool(found <= max_loss), "loss": float(found), "measure": measure, "budget": max_loss}


def _within_bounds(
    executable: Model, runs: Runs, bounds: Bounds, path: str, model: str, against: str, doubtful: Sequence[str]
) -> dict[str, Any]:
    """Print the difference of each output of each run; the outcome, `passed` if all do and something was compared."""
    found = []
    for ours, theirs in runs:
        for spec, mine, other in zip(executable.outputs, ours, theirs, strict=True):
            for one in compare_values(spec.name, mine, other, bounds):
                click.echo(one.line())
                found.append(one)
    wrong = [one for one in found if not one.passed]
    if wrong:
        click.echo(f"the bound is {wrong[0].bound}", err=True)
        note = rounding_note(reference_of(path).nodes(), (one.name for one in wrong))
        if note:
            click.echo(note, err=True)
        if against in reference_of(model).engines_with_values:
            click.echo(
                f"the first node that differs: tilewright bisect {shlex.quote(model)} --against {against}", err=True
            )
        if doubtful:
            click.echo(advice(against, doubtful, model), err=True)
    elif not any(one.compared for one in found):
        click.echo("nothing was compared; choose other inputs with --input or --seed, or a smaller --atol", err=True)
    outputs = [
        {"name": one.name, "passed": one.passed, "error": _finite(one.error), "scale": _finite(one.scale)}
        for one in found
    ]
    return {"passed": not wrong and any(one.compared for one in found), "outputs": outputs}


def _finite(number: float) -> float | None:
    """A number as JSON has it; None for one that is infinite or none."""
    return float(number) if np.isfinite(number) else None


def _runs_of_engines(
    executable: Model, path: str, original: str, shown: str, against: str, inputs: InputOptions
) -> Runs:
    """Run both engines on each set of inputs; the results of each run, ours first."""
    reference: Engine | None = None
    for given in inputs.sets(executable, path):
        results = executable.run(given.arrays)
        if reference is None:
            reference = reference_of(original).open(against, given.arrays, executable.threads)
        reference.feed(given.arrays)
        beside = f" of {original}" if original != path else ""
        where = f" {note}" if (note := engine_note(executable)) else ""
        click.echo(f"{shown}{where} against {reference.name} {reference.version}{beside}, {given.origin}")
        yield results, reference.run()
