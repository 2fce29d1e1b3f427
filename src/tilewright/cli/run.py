"""`tilewright run MODEL`: run a model or artifact on given or random inputs and show or store the outputs."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from tilewright.cli.inputs import fresh_seed, random_inputs, read_inputs
from tilewright.cli.options import load_or_compile, model_options, parse_inputs
from tilewright.errors import InputError


@click.command("run")
@click.argument("model")
@click.option("--input", "pairs", multiple=True, metavar="NAME=FILE.npy", help="an input; the others are random")
@click.option("--output", help="write the outputs to this .npz file")
@click.option("--seed", type=int, help="seed of the random inputs [default: fresh]")
@model_options
def run_command(
    model: str,
    pairs: tuple[str, ...],
    output: str | None,
    seed: int | None,
    target: str,
    shapes: str | None,
    threads: int | None,
    no_cache: bool,
) -> None:
    """Run MODEL (.onnx or a compiled .tw) once and print each output."""
    given = read_inputs(parse_inputs(pairs))
    executable = load_or_compile(model, target, shapes, threads, no_cache)
    names = [spec.name for spec in executable.inputs]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InputError(f"the model has no input {unknown[0]!r}; its inputs are: {', '.join(names)}")
    missing = [spec for spec in executable.inputs if spec.name not in given]
    if missing:
        seed = fresh_seed() if seed is None else seed
        given |= random_inputs(missing, seed)
        click.echo(f"random input (seed {seed}): {', '.join(spec.name for spec in missing)}")
    start = time.perf_counter()
    results = executable.run(given)
    elapsed = time.perf_counter() - start
    for spec, value in zip(executable.outputs, results, strict=True):
        click.echo(describe(spec.name, np.asarray(value)))
    click.echo(f"ran in {elapsed * 1e3:.3f} ms")
    if output:
        store(output, {spec.name: np.asarray(v) for spec, v in zip(executable.outputs, results, strict=True)})


def describe(name: str, value: np.ndarray[Any, Any]) -> str:
    """One line on an output: name, dtype, shape, range and first values."""
    first = ", ".join(f"{v:.6g}" for v in value.reshape(-1)[:4].tolist())
    more = ", …" if value.size > 4 else ""
    span = f" in [{value.min():.6g}, {value.max():.6g}]" if value.size else ""
    return f"{name}: {value.dtype}{list(value.shape)}{span}: {first}{more}"


def store(path: str, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """Write `arrays` to the .npz file `path`, whole or not at all."""
    folder = Path(path).resolve().parent
    try:
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".npz", delete=False) as temporary:
            np.savez(temporary, **arrays)  # type: ignore[arg-type]
        os.replace(temporary.name, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
