"""Programs from files: `.pt2` archives of `torch.export.save`; only tensors and plain data are unpickled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.source import Source
from tilewright.frontend.torch.archive import check_program

#: The variable of the environment by which `torch.load` never unpickles more than `weights_only` allows.
_SETTING = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def load_program(source: Any) -> Any:
    """The `ExportedProgram` that `source` is, or that the file named so holds.

    Raises `ModelError` where there is no such file or it is no program, `UnsupportedError` for another object.
    """
    # torch is optional
    import torch

    if isinstance(source, torch.export.ExportedProgram):
        return source
    if isinstance(source, torch.nn.Module):
        raise UnsupportedError(
            f"the module {type(source).__name__} says nothing of its inputs; pass example inputs: "
            "tilewright.compile(module, (x, …))"
        )
    if not isinstance(source, str | os.PathLike):
        raise UnsupportedError(
            f"cannot read a {type(source).__name__} as a PyTorch program; pass a torch.export.ExportedProgram "
            "or the path of a .pt2 file"
        )
    path = Path(source)
    if not path.is_file():
        raise ModelError(f"{path}: there is no such file")
    source = Source.of(path)
    if not is_program(source):
        raise ModelError(
            f"{path} is no program of torch.export; export the module with torch.export.export and write it with "
            "torch.export.save (checkpoints and pickled modules are never read, for they run code)"
        )
    check_program(source)
    try:
        with _only_weights():
            return torch.export.load(path)
    except Exception as error:  # whatever the reader of torch meets in a damaged archive
        raise ModelError(f"{path} cannot be read: {type(error).__name__}: {error}") from None


def is_program(source: Source) -> bool:
    """True for an archive with the entry that names its format and a graph as JSON, both under one folder."""
    names = source.members
    return any(name.rpartition("/")[2] == "archive_format" for name in names) and any(
        "models/" in name and name.endswith(".json") for name in names
    )


@contextmanager
def _only_weights() -> Iterator[None]:
    """Have torch unpickle tensors and plain data only: the reader of programs needs more where that fails."""
    before = os.environ.get(_SETTING)
    os.environ[_SETTING] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SETTING, None)
        else:
            os.environ[_SETTING] = before
