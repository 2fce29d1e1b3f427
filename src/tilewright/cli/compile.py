"""`tilewright compile MODEL -o OUT`: compile a model into one artifact file, or into a library for C programs."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli.options import ModelOptions, check_option, exact_rounding_option, model_options
from tilewright.cli.outputs import check_writable
from tilewright.errors import InputError
from tilewright.runtime.export import KINDS
from tilewright.support import trace
from tilewright.support.cache import descriptor_of
from tilewright.support.fingerprint import external_data

_MIB = 2**20


@click.command("compile")
@click.argument("model")
@click.option("-o", "--output", required=True, help="artifact (.tw), or for C with a header: .so, .a, .o, .c")
@model_options
@click.option("--report", is_flag=True, help="print the time of each stage")
@click.option("--executor", help="what runs it: auto, graph, aot, vm or debug  [default: auto]")
@check_option
@exact_rounding_option
def compile_command(
    model: str,
    output: str,
    options: ModelOptions,
    report: bool,
    executor: str | None,
    check: bool,
    exact_rounding: bool,
) -> None:
    """Compile MODEL and write the result to OUTPUT."""
    check_writable(output, model)
    _check_kind(output)
    with trace.collect() as times:
        _write(model, output, options, executor, check, exact_rounding)
    # the seconds are there when the collection has ended
    piped = descriptor_of(Path(output)) is not None  # then the standard output is not for words, nor has it a size
    size = "written" if piped else _size_text(model, output)
    click.echo(f"{output}: {size}, compiled in {times.seconds:.2f} s", err=piped)
    if report:
        click.echo(times.table(), err=piped)


def _size_text(model: str, output: str) -> str:
    """The size of what was written; beside that of the model's file where it is larger by much, and why."""
    made, given = Path(output).stat().st_size, Path(model).stat().st_size
    text = f"{made / _MIB:.1f} MiB"
    beside = Path(model).suffix == ".onnx" and external_data(Path(model))
    if beside or made < 1.05 * given + _MIB:
        return text
    return f"{text} (the model {given / _MIB:.1f}: weights are stored as the kernels read them, see docs/artifact.md)"


def _check_kind(output: str) -> None:
    """An InputError where the name of `output` ends in what is not written, before the model is compiled."""
    kind = Path(output).suffix
    if kind not in ("", ".tw", ".c", *KINDS):
        raise InputError(
            f"{output}: nothing is written that ends in {kind}; name it .tw for an artifact, .c for C source, or "
            f"{', '.join(KINDS)} for a library with its header"
        )


def _write(
    model: str, output: str, options: ModelOptions, executor: str | None, check: bool, exact_rounding: bool
) -> None:
    """The model in the form that the name of `output` stands for."""
    kind = Path(output).suffix
    if check and (kind == ".c" or kind in KINDS):
        raise InputError("--check runs on the host, in Python: an artifact (.tw) can have it, C code cannot")
    if kind == ".c":
        options.export_source(model, output, exact_rounding)
        return
    executable = options.open(model, executor or "auto", check=check, runs=False, exact_rounding=exact_rounding)
    with trace.span("save"):
        if kind in KINDS:
            executable.export_library(output)
        else:
            executable.save(output)
