"""Models of two files: one says which layers there are, the other holds their weights."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.errors import ModelError
from tilewright.frontend.source import Source

Part = str | os.PathLike[str] | bytes | bytearray | memoryview
_PARTS = (str, os.PathLike, bytes, bytearray, memoryview)


def is_pair(model: object) -> bool:
    """True for a tuple of two paths or bytes: what `(architecture, weights)` is given as."""
    return isinstance(model, tuple) and len(model) == 2 and all(isinstance(part, _PARTS) for part in model)


def first_of(model: tuple[Any, Any]) -> Source | None:
    """The first part of a pair, for telling of what format it is; None where it cannot be read."""
    try:
        return Source.of(model[0])
    except ModelError:
        return None


def beside(path: Path, suffixes: Sequence[str]) -> Path | None:
    """The file of weights that belongs to the one at `path`: of the same name, or the only one of its folder.

    Nothing but the folder of `path` is looked at, and nothing that its contents name.
    """
    for suffix in suffixes:
        if (found := path.with_suffix(suffix)).is_file():
            return found
    others = [found for suffix in suffixes for found in sorted(path.parent.glob(f"*{suffix}")) if found.is_file()]
    return others[0] if len(others) == 1 else None


def text_of(source: Source) -> str:
    """The contents as text. Raises `ModelError` where they are none."""
    try:
        return bytes(source.contents).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{source.label} is no text: {error.reason} at byte {error.start}") from None
