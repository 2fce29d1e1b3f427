"""`tilewright run MODEL`: run a model or artifact on given or random inputs and show or store the outputs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from tilewright.cli.dump import check_folder, dump_to
from tilewright.cli.inputs import InputOptions, InputSet, input_options
from tilewright.cli.options import (
    ModelOptions,
    check_option,
    exact_rounding_option,
    lent_board_options,
    model_options,
    require_model,
)
from tilewright.cli.outputs import check_writable, write_file
from tilewright.cli.reference import check_against, reference_of
from tilewright.errors import InputError
from tilewright.runtime.model import Model
from tilewright.runtime.vm.debug import DebugMachine

Array = np.ndarray[Any, Any]


@click.command("run")
@click.argument("model")
@click.option("--output", help="write the outputs to this .npz file")
@click.option(
    "--dump", "folder", metavar="DIR", help="run operator by operator and write every result into this folder"
)
@click.option("--against", help="compare what --dump writes with this engine, such as onnxruntime")
@check_option
@exact_rounding_option
@input_options
@model_options
@lent_board_options
def run_command(
    model: str,
    output: str | None,
    folder: str | None,
    against: str | None,
    check: bool,
    exact_rounding: bool,
    inputs: InputOptions,
    options: ModelOptions,
) -> None:
    """Run MODEL (a model or a compiled .tw) once, or once for each seed, and print each output."""
    if output:
        check_writable(output, model)
    if against is not None and folder is None:
        raise InputError("--against compares what --dump writes; add --dump DIR, or use tilewright verify")
    if folder is not None:
        require_model(model, "run --dump")
        check_folder(folder)
        against = against and check_against(reference_of(model), against, inner=True)
    if (output or folder) and len(inputs.seeds) > 1:
        raise InputError("--output and --dump hold one run; use one --seed")
    if check:
        require_model(model, "run --check")
    executor = "auto" if folder is None else "debug"
    executable = inputs.open(model, options, executor=executor, check=check, exact_rounding=exact_rounding)
    agrees = True
    for given in inputs.sets(executable, model):
        if isinstance(executable, DebugMachine) and folder is not None:
            agrees = dump_to(folder, model, executable, given.arrays, against)
        arrays = run_once(executable, given)
        if output:
            write_file(output, partial(store, arrays))
    if not agrees:
        click.get_current_context().exit(1)


def run_once(executable: Model, given: InputSet) -> dict[str, Array]:
    """Run and print the outputs; they, by name."""
    start = time.perf_counter()
    results = executable.run(given.arrays)
    elapsed = time.perf_counter() - start
    if given.seed is not None:
        click.echo(f"random input (seed {given.seed}): {', '.join(given.drawn)}")
    arrays = {
        name: array
        for spec, value in zip(executable.outputs, results, strict=True)
        for name, array in leaves(spec.name, value)
    }
    for name, value in arrays.items():
        click.echo(describe(name, value))
    click.echo(getattr(executable, "note", "") or f"ran in {elapsed * 1e3:.3f} ms")
    return arrays


def leaves(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    """The arrays of an output by name: itself, or what a sequence or map holds as `name[0]`; none for nothing."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(f"{name}[{key!r}]", item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from leaves(f"{name}[{index}]", item)
    elif value is not None:
        yield name, np.asarray(value)


def describe(name: str, value: Array) -> str:
    """One line on an output: name, dtype, shape, range and first values."""
    texts = value.dtype.kind in "OUST"
    first = ", ".join(str(v) if texts else f"{float(v):.6g}" for v in value.reshape(-1)[:4])
    more = ", …" if value.size > 4 else ""
    span = f" in [{float(value.min()):.6g}, {float(value.max()):.6g}]" if value.size and not texts else ""
    return f"{name}: {'string' if texts else value.dtype}{list(value.shape)}{span}: {first}{more}"


def store(arrays: dict[str, Array], path: Path) -> None:
    """Write `arrays` to `path` in the .npz format (bfloat16 as float32, which that format can hold)."""
    plain = {name: value.astype(np.float32) if value.dtype.kind == "V" else value for name, value in arrays.items()}
    plain = {name: value.astype(str) if value.dtype == object else value for name, value in plain.items()}
    with path.open("wb") as file:
        np.savez(file, **plain)  # type: ignore[arg-type]
