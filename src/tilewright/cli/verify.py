"""`tilewright verify MODEL`: compare the outputs with another engine's on fresh random inputs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from tilewright.cli.engines import ENGINES, check_engine, open_engine
from tilewright.cli.inputs import complete_inputs, read_inputs
from tilewright.cli.options import ModelOptions, model_options, parse_inputs, require_model
from tilewright.cli.saturation import advice, saturating_nodes
from tilewright.cli.submodel import cut_at
from tilewright.runtime.model import Model

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Difference:
    """How one output differs: the largest absolute difference, the largest reference value, where, and if it passes."""

    name: str
    error: float
    scale: float
    where: tuple[int, ...]
    passed: bool

    def line(self) -> str:
        """The difference as one line of the report."""
        relative = self.error / self.scale if self.scale else self.error
        verdict = "ok" if self.passed else "DIFFERS"
        place = "" if self.passed else f" first at {list(self.where)}"
        figures = f"max|ours - ref| {self.error:.3g}, max|ref| {self.scale:.3g}, ratio {relative:.2g}"
        return f"{verdict:8} {self.name}: {figures}{place}"


def compare(name: str, ours: Array, reference: Array, rtol: float, atol: float) -> Difference:
    """Compare one output: passes if max|ours - ref| <= atol + rtol * max|ref|, with equal shape, NaN and infinities."""
    if ours.shape != reference.shape:
        title = f"{name} (shape {list(ours.shape)}, expected {list(reference.shape)})"
        return Difference(title, np.inf, 1.0, (), False)
    a, b = ours.astype(np.float64), reference.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):  # inf - inf
        distance = np.where(same, 0.0, np.abs(a - b))
    distance = np.where(np.isnan(distance), np.inf, distance)
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 0.0
    error = float(distance.max()) if distance.size else 0.0
    where = np.unravel_index(int(distance.argmax()), distance.shape) if distance.size else ()
    return Difference(name, error, scale, tuple(int(i) for i in where), error <= atol + rtol * scale)


@click.command("verify")
@click.argument("model")
@click.option("--against", default="onnxruntime", show_default=True, help=f"one of: {', '.join(ENGINES)}")
@click.option("--rtol", default=1e-4, show_default=True, help="bound on max|ours - ref| / max|ref|")
@click.option("--atol", default=0.0, show_default=True, help="absolute part of the bound")
@click.option("--input", "pairs", multiple=True, metavar="NAME=FILE.npy", help="an input; the others are random")
@click.option("--seed", type=click.IntRange(min=0), help="seed of the random inputs  [default: fresh]")
@click.option("--at", "values", multiple=True, metavar="VALUE", help="compare this inner value instead of the outputs")
@model_options
def verify_command(
    model: str,
    against: str,
    rtol: float,
    atol: float,
    pairs: tuple[str, ...],
    seed: int | None,
    values: tuple[str, ...],
    options: ModelOptions,
) -> None:
    """Check MODEL (.onnx) against another engine; exit status 1 if an output differs by more than the bound."""
    check_engine(against)
    given = read_inputs(parse_inputs(pairs))
    require_model(model, "verify")
    with tempfile.TemporaryDirectory() as folder:
        path = cut_at(model, values, folder) if values else model
        executable = options.open(path)
        doubtful = [] if against == "reference" else saturating_nodes(path)
        differences = _compare_engines(executable, path, model, against, given, seed, (rtol, atol))
    if doubtful:
        click.echo(
            f"note     this processor has no dot products of bytes (VNNI): sums of uint8 x int8 products saturate in "
            f"{against}; nodes that have them: {len(doubtful)}, the first {doubtful[0]}"
        )
    for difference in differences:
        click.echo(difference.line())
    if not all(difference.passed for difference in differences):
        click.echo(f"the bound is {rtol:g} x max|ref| + {atol:g}", err=True)
        if doubtful:
            click.echo(advice(against, doubtful, model), err=True)
        click.get_current_context().exit(1)


def _compare_engines(
    executable: Model,
    path: str,
    shown: str,
    against: str,
    given: dict[str, Array],
    seed: int | None,
    bound: tuple[float, float],
) -> list[Difference]:
    """Run both engines on the given and random inputs; one difference per output."""
    inputs, used_seed = complete_inputs(executable.inputs, given, seed)
    results = executable.run(inputs)
    reference = open_engine(against, path, inputs, executable.threads)
    origin = "given inputs" if used_seed is None else f"inputs from seed {used_seed}"
    click.echo(f"{shown} against {reference.name} {reference.version}, {origin}")
    return [
        compare(spec.name, np.asarray(ours), np.asarray(ref), *bound)
        for spec, ours, ref in zip(executable.outputs, results, reference.run(), strict=True)
    ]
