"""`tilewright verify MODEL`: compare the outputs with another engine's on fresh random inputs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from tilewright.cli.engines import ENGINES, open_engine
from tilewright.cli.inputs import fresh_seed, random_inputs, read_inputs
from tilewright.cli.options import load_or_compile, model_options, parse_inputs


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
        return f"{verdict:8} {self.name}: max|ours - ref| {self.error:.3g}, max|ref| {self.scale:.3g}, ratio {relative:.2g}{place}"


def compare(name: str, ours: np.ndarray[Any, Any], reference: np.ndarray[Any, Any], rtol: float, atol: float) -> Difference:
    """Compare one output: passes if max|ours - ref| <= atol + rtol * max|ref|, with equal shape, NaN and infinities."""
    if ours.shape != reference.shape:
        return Difference(f"{name} (shape {list(ours.shape)}, expected {list(reference.shape)})", np.inf, 1.0, (), False)
    a, b = ours.astype(np.float64), reference.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    distance = np.where(same, 0.0, np.abs(a - b))
    distance = np.where(np.isnan(distance), np.inf, distance)
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 0.0
    error = float(distance.max()) if distance.size else 0.0
    where = np.unravel_index(int(distance.argmax()), distance.shape) if distance.size else ()
    return Difference(name, error, scale, tuple(int(i) for i in where), error <= atol + rtol * scale)


@click.command("verify")
@click.argument("model")
@click.option("--against", default="onnxruntime", show_default=True, type=click.Choice(list(ENGINES)))
@click.option("--rtol", default=1e-4, show_default=True, help="bound on max|ours - ref| / max|ref|")
@click.option("--atol", default=0.0, show_default=True, help="absolute part of the bound")
@click.option("--input", "pairs", multiple=True, metavar="NAME=FILE.npy", help="an input; the others are random")
@click.option("--seed", type=int, help="seed of the random inputs [default: fresh]")
@model_options
def verify_command(
    model: str,
    against: str,
    rtol: float,
    atol: float,
    pairs: tuple[str, ...],
    seed: int | None,
    target: str,
    shapes: str | None,
    threads: int | None,
    no_cache: bool,
) -> None:
    """Check MODEL (.onnx) against another engine; exit status 1 if an output differs by more than the bound."""
    executable = load_or_compile(model, target, shapes, threads, no_cache)
    seed = fresh_seed() if seed is None else seed
    inputs = random_inputs(executable.inputs, seed) | read_inputs(parse_inputs(pairs))
    reference = open_engine(against, model, inputs, executable.threads)
    click.echo(f"{model} against {reference.name} {reference.version}, inputs from seed {seed}")
    expected = reference.run()
    results = executable.run(inputs)
    differences = [
        compare(spec.name, np.asarray(ours), np.asarray(ref), rtol, atol)
        for spec, ours, ref in zip(executable.outputs, results, expected, strict=True)
    ]
    for difference in differences:
        click.echo(difference.line())
    if not all(difference.passed for difference in differences):
        click.echo(f"the bound is {rtol:g} x max|ref| + {atol:g}", err=True)
        sys.exit(1)
