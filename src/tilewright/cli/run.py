"""`tilewright run MODEL`: run a model or artifact on given or random inputs and show or store the outputs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from tilewright.cli.dump import check_folder, dump_to
from tilewright.cli.inputs import complete_inputs, read_inputs
from tilewright.cli.options import ModelOptions, model_options, parse_inputs, require_model
from tilewright.cli.outputs import check_writable, write_file
from tilewright.errors import InputError
from tilewright.runtime.vm.debug import DebugMachine


@click.command("run")
@click.argument("model")
@click.option("--input", "pairs", multiple=True, metavar="NAME=FILE.npy", help="an input; the others are random")
@click.option("--output", help="write the outputs to this .npz file")
@click.option(
    "--dump", "folder", metavar="DIR", help="run operator by operator and write every result into this folder"
)
@click.option("--against", type=click.Choice(["onnxruntime"]), help="compare what --dump writes with this engine")
@click.option("--check", is_flag=True, help="end with an error where an index (of a Gather, a Scatter) is out of range")
@click.option("--seed", type=click.IntRange(min=0), help="seed of the random inputs  [default: fresh]")
@model_options
def run_command(
    model: str,
    pairs: tuple[str, ...],
    output: str | None,
    folder: str | None,
    against: str | None,
    check: bool,
    seed: int | None,
    options: ModelOptions,
) -> None:
    """Run MODEL (.onnx or a compiled .tw) once and print each output."""
    given = read_inputs(parse_inputs(pairs))
    if output:
        check_writable(output, model)
    if against is not None and folder is None:
        raise InputError("--against compares what --dump writes; give --dump DIR, or use tilewright verify")
    if folder is not None:
        require_model(model, "run --dump")
        check_folder(folder)
    if check:
        require_model(model, "run --check")
    executable = options.open(model, executor="auto" if folder is None else "debug", check=check)
    inputs, used_seed = complete_inputs(executable.inputs, given, seed)
    agrees = True
    if isinstance(executable, DebugMachine) and folder is not None:
        agrees = dump_to(folder, model, executable, inputs, against is not None)
    start = time.perf_counter()
    results = executable.run(inputs)
    elapsed = time.perf_counter() - start
    if used_seed is not None:
        click.echo(f"random input (seed {used_seed}): {', '.join(name for name in inputs if name not in given)}")
    arrays = {spec.name: np.asarray(value) for spec, value in zip(executable.outputs, results, strict=True)}
    for name, value in arrays.items():
        click.echo(describe(name, value))
    click.echo(f"ran in {elapsed * 1e3:.3f} ms")
    if output:
        write_file(output, lambda path: store(path, arrays))
    if not agrees:
        click.get_current_context().exit(1)


def describe(name: str, value: np.ndarray[Any, Any]) -> str:
    """One line on an output: name, dtype, shape, range and first values."""
    first = ", ".join(f"{v:.6g}" for v in value.reshape(-1)[:4].tolist())
    more = ", …" if value.size > 4 else ""
    span = f" in [{value.min():.6g}, {value.max():.6g}]" if value.size else ""
    return f"{name}: {value.dtype}{list(value.shape)}{span}: {first}{more}"


def store(path: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """Write `arrays` to `path` in the .npz format (bfloat16 as float32, which that format can hold)."""
    plain = {name: value.astype(np.float32) if value.dtype.kind == "V" else value for name, value in arrays.items()}
    with path.open("wb") as file:
        np.savez(file, **plain)  # type: ignore[arg-type]
