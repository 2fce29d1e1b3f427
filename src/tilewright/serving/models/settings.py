"""Settings of the model server, and of each model: options of the command line, and `serving.json` beside a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tilewright.errors import InputError

_MIB = 2**20


@dataclass(frozen=True)
class ModelSettings:
    """Settings of one model; `serving.json` in its folder has the same names."""

    #: Most rows of a batch; 1 for no batches. A model needs a symbolic first dimension, or `fixed_batch`.
    max_batch: int = 32
    #: Seconds that the first request of a batch waits for others, at most.
    max_delay: float = 0.0
    #: The first dimension of a model of fixed sizes is a batch, which is padded where fewer rows come.
    fixed_batch: bool = False
    #: Copies of the model that run at a time, and the threads of each (None: as many as there are processors).
    instances: int = 1
    threads: int | None = None
    #: Requests that wait, at most; more are refused.
    queue: int = 512
    #: Run each instance before it takes requests.
    warm_up: bool = True
    #: The first dimension of every input becomes a symbol where a model has to be compiled.
    symbolic_batch: bool = False

    def changed(self, values: Mapping[str, Any], source: str) -> ModelSettings:
        """These settings with others of `values`. Raises `InputError` for a name or a value that is none."""
        known = {field.name: field for field in fields(self)}
        for name, value in values.items():
            if name not in known:
                raise InputError(f"{source}: there is no setting {name!r}; there are {', '.join(known)}")
            _check(name, value, source)
        return replace(self, **values)

    def of_folder(self, folder: Path) -> ModelSettings:
        """These settings with those of the folder's `serving.json`, where it has one."""
        path = folder / "serving.json"
        if not path.is_file():
            return self
        try:
            values = json.loads(path.read_text())
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{path}: {error}") from None
        if not isinstance(values, dict):
            raise InputError(f"{path}: settings are an object of JSON, not {type(values).__name__}")
        return self.changed(values, str(path))


def _check(name: str, value: Any, source: str) -> None:
    if name in ("fixed_batch", "warm_up", "symbolic_batch"):
        fits = isinstance(value, bool)
    elif name == "max_delay":
        fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 60
    else:
        optional = name == "threads" and value is None
        fits = optional or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1 << 20)
    if not fits:
        raise InputError(f"{source}: {name} cannot be {value!r}")


@dataclass(frozen=True)
class Limits:
    """Bounds on what clients may take: bytes, seconds, connections."""

    #: Bytes of a request; of the JSON in it, which takes a multiple as objects; of all requests being received or run.
    body: int = 64 * _MIB
    json: int = 8 * _MIB
    buffered: int = 1024 * _MIB
    headers: int = 32 << 10
    connections: int = 1024
    #: Seconds until the head of a request is there; until its body is; between two pieces of either; without a request.
    head_seconds: float = 10.0
    body_seconds: float = 120.0
    stall_seconds: float = 10.0
    idle_seconds: float = 75.0
    #: Seconds in which a client takes some of its response.
    write_seconds: float = 30.0
    #: Seconds that a request may wait for its turn.
    request_seconds: float = 60.0
    #: Seconds that requests have to end after a signal.
    grace_seconds: float = 30.0
    #: Load and unload models, and share memory, for clients that may be of other machines.
    trusted: bool = True
