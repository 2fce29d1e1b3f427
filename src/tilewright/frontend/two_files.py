"""Models of two files: one says which layers there are, the other holds their weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.converters import Converters
from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Frontend, Shapes
from tilewright.frontend.source import Source
from tilewright.relay.ir.module import IRModule

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

    def __init__(
        self, name: str, kind: str, in_memory: str, begins: Callable[[Source], bool],
        read: Callable[..., tuple[IRModule, list[InputSpec]]], weights_beside: Callable[[Path], Path | None],
        converters: Mapping[str, Converters], states: Callable[..., Mapping[str, np.ndarray]] = lambda *parts: {},
    ) -> None:  # fmt: skip
        """`begins` recognizes the first file, `read` takes both and the shapes of the inputs.

        `weights_beside` finds the second file of the first; `converters` are by kinds of operator; `states` are the
        initial states of a model's parts.
        """
        self.name, self.kind, self.in_memory = name, kind, in_memory
        self._begins, self._read, self._beside = begins, read, weights_beside
        self._converters, self._states = converters, states

    def recognizes(self, source: Source) -> bool:
        return self._begins(source)

    def takes(self, model: object) -> bool:
        """True for a pair whose first part is of this format."""
        try:
            return is_pair(model) and self.recognizes(Source.of(model[0]))  # type: ignore[index]
        except ModelError:
            return False

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        return self._read(*parts_of(model), input_shapes)

    def first_states(self, model: Any) -> Mapping[str, np.ndarray[Any, Any]]:
        return self._states(*parts_of(model))

    def companions(self, path: Path) -> Sequence[Path]:
        """The file of weights; all files of a folder without one."""
        found = self._beside(path)
        if found is None and path.is_dir():
            return sorted(one for one in path.iterdir() if one.is_file())
        return () if found is None or found == path else (found,)

    def operators(self) -> dict[str, list[str]]:
        return {kind: converters.supported() for kind, converters in self._converters.items()}


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
