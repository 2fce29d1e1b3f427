"""Checkpoints: parameters, optimizer state and position of a training in one file, whole or not there at all.

A training that is killed at any time goes on from its last checkpoint, and computes the same bits as if it had not
been. The files are of safetensors: `parameters/NAME` and `state/NAME`, and the position as JSON in the metadata.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.support.cache import atomic_file
from tilewright.support.packages import package
from tilewright.training.rules.optimizer import Array

_NAME = re.compile(r"step-(\d{9,})\.safetensors")
_METADATA = "tilewright"
_EXTRA = ("checkpoints of a training", "train")


@dataclass(frozen=True)
class Checkpoint:
    """Parameters and state by name, and the position of the loop as JSON."""

    parameters: Mapping[str, Array]
    state: Mapping[str, Array]
    position: dict[str, Any]


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of one training in a folder, one each `every` steps; the last `keep` of them stay."""

    folder: Path
    every: int = 100
    keep: int = 2

    def __post_init__(self) -> None:
        if self.every < 1 or self.keep < 1:
            raise InputError(f"checkpoints every {self.every} steps, of which {self.keep} stay: both must be 1 or more")

    def save(self, step: int, checkpoint: Checkpoint) -> Path:
        """Write the checkpoint after `step` steps, and remove those that are too many."""
        arrays = {f"parameters/{name}": value for name, value in checkpoint.parameters.items()}
        arrays |= {f"state/{name}": value for name, value in checkpoint.state.items()}
        plain = {
            name: np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value) for name, value in arrays.items()
        }
        metadata = {_METADATA: json.dumps(checkpoint.position)}
        contents = package("safetensors.numpy", *_EXTRA).save(plain, metadata)
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        path = Path(self.folder) / f"step-{step:09d}.safetensors"
        with atomic_file(path) as temporary:
            temporary.write_bytes(contents)
        for old in self._files()[: -self.keep]:
            old.unlink(missing_ok=True)
        return path

    def last(self) -> Checkpoint | None:
        """The last checkpoint, if there is one. Raises `InputError` where it cannot be read."""
        files = self._files()
        if not files:
            return None
        try:
            with package("safetensors", *_EXTRA).safe_open(files[-1], framework="numpy") as opened:
                position = json.loads((opened.metadata() or {})[_METADATA])
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (it is no mapping)
        except (OSError, ValueError, KeyError, _safetensors_error()) as error:
            raise InputError(
                f"{files[-1]}: no checkpoint of a training ({error}); remove it to begin from the one before"
            ) from error
        parts: dict[str, dict[str, Array]] = {"parameters": {}, "state": {}}
        for name, value in tensors.items():
            part, _, own = name.partition("/")
            parts[part][own] = value
        return Checkpoint(parts["parameters"], parts["state"], position)

    def _files(self) -> list[Path]:
        """The checkpoints, oldest first."""
        folder = Path(self.folder)
        found = [(_NAME.fullmatch(path.name), path) for path in folder.iterdir()] if folder.is_dir() else []
        return [path for _, path in sorted((int(match[1]), path) for match, path in found if match)]


def _safetensors_error() -> type[Exception]:
    error: type[Exception] = package("safetensors", *_EXTRA).SafetensorError
    return error
