"""`tilewright compile MODEL -o OUT`: compile a model into one artifact file, or into a library for C programs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli.options import (
    ModelOptions,
    SourceOptions,
    check_option,
    exact_rounding_option,
    is_web,
    model_options,
)
from tilewright.cli.outputs import check_writable
from tilewright.cli.source import freestanding_option, is_source, layout_option, source_target, write_source
from tilewright.cli.web import check_folder, is_gpu_folder, write_web
from tilewright.errors import InputError
from tilewright.runtime.export import KINDS
from tilewright.support import trace
from tilewright.support.cache import descriptor_of
from tilewright.support.fingerprint import external_data

if TYPE_CHECKING:
    from tilewright.driver.build_source import Exported
    from tilewright.runtime.model import Model

_MIB = 2**20
_NO_CHECK = "--check runs on the host, in Python: an artifact (.tw) can have it, C code cannot"


@click.command("compile")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.option(
    "-o",
    "--output",
    required=True,
    help="artifact (.tw), or for C with a header: .so, .a, .o, .c; with --layout, --target wasm or webgpu a folder/",
)
@model_options
@click.option("--report", is_flag=True, help="print the time of each stage, of C source also memory by layer")
@freestanding_option
@layout_option
@click.option(
    "--state", "states", multiple=True, metavar="IN=OUT", help="C source in steps: an input, and the output it becomes"
)
@click.option("--oblivious", is_flag=True, help="no branch or address of C source depends on data, or an error")
@click.option("--sign", metavar="KEY.pem", help="sign artifact or weights of C source; with --encrypt")
@click.option("--encrypt", metavar="KEY", help="encrypt them, by a key of `tilewright keygen NAME --encryption`")
@click.option(
    "--ram-limit", type=click.IntRange(min=1), metavar="BYTES", help="most bytes of workspace, slower if need be"
)
@click.option(
    "--rom-limit", type=click.IntRange(min=1), metavar="BYTES", help="most bytes of constants and code, likewise"
)
@click.option("--executor", help="what runs it: auto, graph, aot, vm or debug  [default: auto]")
@check_option
@exact_rounding_option
def compile_command(
    models: tuple[str, ...],
    output: str,
    options: ModelOptions,
    report: bool,
    executor: str | None,
    check: bool,
    exact_rounding: bool,
    freestanding: bool,
    layout: str | None,
    states: tuple[str, ...],
    oblivious: bool,
    sign: str | None,
    encrypt: str | None,
    ram_limit: int | None,
    rom_limit: int | None,
) -> None:
    """Compile MODEL and write the result to OUTPUT; several as one file of C."""
    web = is_web(options.target) and not is_source(output, layout, options.target)
    web = web or is_gpu_folder(output, options.target)
    if web:
        check_folder(output)
    elif layout is None:
        for model in models:
            check_writable(output, model)
        _check_kind(output)
    source = is_source(output, layout, options.target)
    given = {
        "--freestanding": freestanding,
        "--oblivious": oblivious,
        "--state": states,
        "--ram-limit": ram_limit,
        "--rom-limit": rom_limit,
    }
    for option, value in (given | {"several models": len(models) > 1}).items():
        if value and not source:
            raise InputError(f"{option}: this is for C source; name the output .c")
    keys = _keys(sign, encrypt)
    if web and (keys or check):
        raise InputError("--check, --sign and --encrypt: there is none of these on the web; leave them out")
    if len(models) > 1 and (keys or oblivious or states):
        raise InputError("--sign, --encrypt, --oblivious and --state are for one model; compile them one by one")
    with trace.collect() as times:
        if source:
            as_source = SourceOptions(exact_rounding, freestanding, oblivious, keys, ram_limit, rom_limit, states)
            if check:
                raise InputError(_NO_CHECK)
            tables = _write_source(models, output, options, layout, as_source, report)
        elif web:
            tables = write_web(models[0], output, options, executor, exact_rounding)
        else:
            tables = _write(models[0], output, options, executor, check, exact_rounding, keys)
    # the seconds are there when the collection has ended
    piped = descriptor_of(Path(output)) is not None  # then the standard output is not for words, nor has it a size
    size = "written" if piped else _size_text(models[0], output, "folder" if web else "project")
    click.echo(f"{output}: {size}, compiled in {times.seconds:.2f} s", err=piped)
    if report:
        click.echo(times.table(), err=piped)
    for table in tables:
        click.echo(table, err=piped)


def _keys(sign: str | None, encrypt: str | None) -> tuple[str, str] | None:
    """The keys of both options, or None. Raises `InputError` where one is missing."""
    if sign and encrypt:
        return sign, encrypt
    if sign or encrypt:
        raise InputError(
            "--sign KEY.pem and --encrypt KEY belong together; `tilewright sign` signs an artifact without encryption"
        )
    return None


def _save_sealed(executable: Model, output: str, keys: tuple[str, str]) -> None:
    """Save an artifact under seal; without it, it is in a folder of this process alone."""
    # only for these
    from tilewright.cli.outputs import write_file
    from tilewright.runtime.sealed.container import seal

    with tempfile.TemporaryDirectory(prefix="tilewright-sealed-") as folder:
        plain = Path(folder) / "model.tw"
        executable.save(plain, durable=False)
        sealed = seal(plain.read_bytes(), *keys)
    write_file(output, lambda path: path.write_bytes(sealed))


def _size_text(model: str, output: str, kind: str) -> str:
    """The size of what was written; beside that of the model's file where it is larger by much, and why."""
    if Path(output).is_dir():
        return f"a {kind} of " + ", ".join(sorted(one.name for one in Path(output).iterdir()))
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
    model: str,
    output: str,
    options: ModelOptions,
    executor: str | None,
    check: bool,
    exact_rounding: bool,
    keys: tuple[str, str] | None,
) -> Sequence[str]:
    """The model in the form that the name of `output` stands for; what there is to report of it."""
    kind = Path(output).suffix
    if check and kind in KINDS:
        raise InputError(_NO_CHECK)
    if keys and kind in KINDS:
        raise InputError(f"{output}: artifacts (.tw) and weights of C source (.c) are sealed; name it so")
    executable = options.open(model, executor or "auto", check=check, runs=False, exact_rounding=exact_rounding)
    with trace.span("save"):
        if kind in KINDS:
            executable.export_library(output)
        elif keys:
            _save_sealed(executable, output, keys)
        else:
            executable.save(output)
    return ()


def _write_source(
    models: Sequence[str],
    output: str,
    options: ModelOptions,
    layout: str | None,
    as_source: SourceOptions,
    report: bool,
) -> Sequence[str]:
    """One model or several as C source, or what is made of it; their memory by layer, where it is reported."""
    options = replace(options, target=source_target(layout, options.target))

    def export(path: str) -> Exported:
        if len(models) == 1:
            return options.export_source(models[0], path, as_source)
        return options.export_image(models, path, as_source)

    return write_source(export, output, options.target, layout, report)
