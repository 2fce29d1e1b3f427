"""The two files of a Paddle model: the program, of either form, and its parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.paddle.legacy import is_legacy, read_legacy
from tilewright.frontend.paddle.parameters import ParameterFile
from tilewright.frontend.paddle.pir import is_pir, read_pir
from tilewright.frontend.paddle.program import Program
from tilewright.frontend.source import Source
from tilewright.frontend.two_files import Part, beside

SUFFIXES = (".pdiparams",)
MODEL_OF_FOLDER = "__model__"
_TOGETHER = ("__params__", "params")


def is_program(source: Source) -> bool:
    """True for what begins as a program of either form, and for a folder with one."""
    if source.is_folder:
        return MODEL_OF_FOLDER in source.members
    return is_pir(source.contents) or is_legacy(source.contents)


def parameters_beside(path: Path) -> Path | None:
    """The file of parameters of the program at `path`, if there is one."""
    if path.is_dir() or path.name == MODEL_OF_FOLDER:
        folder = path if path.is_dir() else path.parent
        return next((folder / name for name in _TOGETHER if (folder / name).is_file()), None)
    return beside(path, SUFFIXES)


def load(model: Part, parameters: Part | None) -> tuple[Program, dict[str, np.ndarray]]:
    """The program, and the parameters by the names of their values in it. Raises `ModelError`."""
    source = Source.of(model)
    if source.is_folder and source.path is not None:
        source = Source.of(source.path / MODEL_OF_FOLDER)
    read = read_pir if is_pir(source.contents) else read_legacy
    program = read(source.contents, source.label)
    if parameters is None and source.path is not None:
        parameters = parameters_beside(source.path)
    if not program.parameters:
        return program, {}
    if parameters is None:
        if source.path is not None and source.path.name == MODEL_OF_FOLDER:
            return program, _one_by_one(program, source.path.parent)
        raise ModelError(
            f"{source.label} has no parameters: put NAME.pdiparams beside it, or pass both as a tuple "
            "(program, parameters)"
        )
    found = Source.of(parameters)
    file = ParameterFile(found)
    ordered = sorted(program.parameters, key=lambda entry: entry[1].name)
    values = {key: file.take(value) for key, value in ordered}
    file.check_end()
    return program, values


def _one_by_one(program: Program, folder: Path) -> dict[str, np.ndarray]:
    """Parameters that are a file each, named as they are."""
    values = {}
    for key, value in program.parameters:
        if "/" in value.name or "\\" in value.name or "\0" in value.name or value.name in ("", ".", ".."):
            raise ModelError(f"{program.label} names a parameter {value.name!r}, which is no name of a file beside it")
        source = Source.of(folder / value.name)
        values[key] = ParameterFile(source).take(value)
    return values
