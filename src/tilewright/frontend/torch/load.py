"""Programs from files: `.pt2` archives of `torch.export.save`, and nothing that would have to be unpickled."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.source import Source


def load_program(source: Any) -> Any:
    """The `ExportedProgram` that `source` is, or that the file named so holds.

    Raises `ModelError` where there is no such file or it is no program, `UnsupportedError` for another object.
    """
    # torch is optional
    import torch

    if isinstance(source, torch.export.ExportedProgram):
        return source
    if not isinstance(source, str | os.PathLike):
        raise UnsupportedError(
            f"cannot read a {type(source).__name__} as a PyTorch program; give a torch.export.ExportedProgram "
            "or the path of a .pt2 file"
        )
    path = Path(source)
    if not path.is_file():
        raise ModelError(f"{path}: there is no such file")
    if not is_program(Source.of(path)):
        raise ModelError(
            f"{path} is no program of torch.export; export the module with torch.export.export and write it with "
            "torch.export.save (checkpoints and pickled modules are never read, for they run code)"
        )
    try:
        return torch.export.load(path)
    except Exception as error:  # whatever the reader of torch meets in a damaged archive
        raise ModelError(f"{path} cannot be read: {type(error).__name__}: {error}") from None


def is_program(source: Source) -> bool:
    """True for an archive with the entry that names its format and a graph as JSON, both under one folder."""
    names = source.members
    return any(name.rpartition("/")[2] == "archive_format" for name in names) and any(
        "models/" in name and name.endswith(".json") for name in names
    )
