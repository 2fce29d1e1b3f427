"""Checkpoints: parameters, optimizer state and position of a training in one file, whole or not there at all.

A training that is killed at any time goes on from its last checkpoint, and computes the same bits as if it had not
been. The files are of safetensors: `parameters/NAME` and `state/NAME`, and the position as JSON in the metadata.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.support.cache import atomic_file
from tilewright.support.packages import package

Array = np.ndarray[Any, Any]
_NAME = re.compile(r"step-(\d{9,})\.safetensors")
_METADATA = "tilewright"
_EXTRA = ("a checkpoint of a training", "train")


@dataclass(frozen=True)
class Checkpoint:
    """Parameters and state by name, and the position of the loop as JSON."""

    parameters: Mapping[str, Array]
    state: Mapping[str, Array]
    position: dict[str, Any] = field(default_factory=dict)


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, whole or not at all."""
    arrays = {f"parameters/{name}": value for name, value in checkpoint.parameters.items()}
    arrays |= {f"state/{name}": value for name, value in checkpoint.state.items()}
    plain = {name: np.require(value, requirements="C") for name, value in arrays.items()}
    metadata = {_METADATA: json.dumps(checkpoint.position)}
    contents = package("safetensors.numpy", *_EXTRA).save(plain, metadata)
    with atomic_file(path) as temporary:
        temporary.write_bytes(contents)


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a file. Raises `InputError` where it cannot be read."""
    safetensors = package("safetensors", *_EXTRA)
    parts: dict[str, dict[str, Array]] = {"parameters": {}, "state": {}}
    try:
        with safetensors.safe_open(path, framework="numpy") as opened:
            position = json.loads((opened.metadata() or {})[_METADATA])
            for name in opened.keys():  # noqa: SIM118 (it is no mapping)
                part, _, own = name.partition("/")
                parts[part][own] = opened.get_tensor(name)
    except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
        raise InputError(f"{path} is no checkpoint of a training ({type(error).__name__}: {error})") from error
    return Checkpoint(parts["parameters"], parts["state"], position)


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of one training in a folder, one each `every` steps; the last `keep` of them stay."""

    folder: str | Path
    every: int = 100
    keep: int = 2

    def __post_init__(self) -> None:
        if self.every < 1 or self.keep < 1:
            raise InputError(f"checkpoints every {self.every} steps, of which {self.keep} stay: both must be 1 or more")

    def save(self, step: int, checkpoint: Checkpoint) -> None:
        """Write the checkpoint after `step` steps, and remove those that are too many."""
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        write_checkpoint(self.path(step), checkpoint)
        for old in self.steps()[: -self.keep]:
            self.path(old).unlink(missing_ok=True)

    def last(self) -> Checkpoint | None:
        """The last checkpoint, if there is one. Raises `InputError` where it cannot be read."""
        steps = self.steps()
        if not steps:
            return None
        try:
            return read_checkpoint(self.path(steps[-1]))
        except InputError as error:
            raise InputError(f"{error}; remove it to go on from the one before") from error

    def path(self, step: int) -> Path:
        """The file of the checkpoint after `step` steps."""
        return Path(self.folder) / f"step-{step:09d}.safetensors"

    def steps(self) -> list[int]:
        """The steps after which there are checkpoints, oldest first."""
        folder = Path(self.folder)
        found = [_NAME.fullmatch(path.name) for path in folder.iterdir()] if folder.is_dir() else []
        return sorted(int(match[1]) for match in found if match)
