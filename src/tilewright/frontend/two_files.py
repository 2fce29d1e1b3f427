"""Models of two files: one says which layers there are, the other holds their weights."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.errors import ModelError
from tilewright.frontend.interface import Frontend
from tilewright.frontend.source import Source

Part = str | os.PathLike[str] | bytes | bytearray | memoryview
_PARTS = (str, os.PathLike, bytes, bytearray, memoryview)


def parts_of(model: Any) -> tuple[Part, Part | None]:
    """The architecture and the weights of a model: a tuple of both, or the former alone."""
    return model if is_pair(model) else (model, None)


def is_pair(model: object) -> bool:
    """True for a tuple of two paths or bytes: what `(architecture, weights)` is given as."""
    return isinstance(model, tuple) and len(model) == 2 and all(isinstance(part, _PARTS) for part in model)


class PairFrontend(Frontend):
    """A format of two files, which `convert` takes as a path, bytes or a tuple of both."""

    def takes(self, model: object) -> bool:
        """True for a pair whose first part is of this format."""
        try:
            return is_pair(model) and self.recognizes(Source.of(model[0]))  # type: ignore[index]
        except ModelError:
            return False

    def weights_beside(self, path: Path) -> Path | None:
        """The file of weights that belongs to the one at `path`, if there is one."""
        raise NotImplementedError

    def companions(self, path: Path) -> Sequence[Path]:
        """The file of weights."""
        found = self.weights_beside(path)
        return () if found is None or found == path else (found,)


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
