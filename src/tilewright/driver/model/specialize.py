"""Executables with symbolic sizes that compile their model again, in the background, for sizes that come often."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import InputError, ModelError, UnsupportedError
from tilewright.load import load
from tilewright.runtime.executor import Executable
from tilewright.runtime.model import Model
from tilewright.runtime.specializations import Shapes
from tilewright.support.cache import DiskCache
from tilewright.support.fingerprint import contents_digest
from tilewright.support.processes import run_apart


def checked_limit(specialize: Any) -> int:
    """`specialize`, how many sizes may get an executable of their own. Raises `InputError` unless it is one, >= 0."""
    if isinstance(specialize, bool) or not isinstance(specialize, int | np.integer) or specialize < 0:
        raise InputError(f"specialize={specialize!r}; pass how many sizes may be compiled for, an integer of 0 or more")
    return int(specialize)


def specialize_sizes(executable: Model, model: Any, limit: int, compiled: Callable[[Shapes], Model]) -> None:
    """Let `executable`, compiled from `model`, take up to `limit` sizes that it is run at often to `compiled(shapes)`.

    The compiler works in a process of its own, of the lowest priority. Raises `UnsupportedError` for an executable of
    another kind than "graph"; one of fixed sizes is left as it is.
    """
    if not isinstance(executable, Executable) or executable.executor != Executable.executor:
        raise UnsupportedError(
            f'specialize={limit}: this model runs on the executor "{executable.executor}", and only the graph executor '
            "specializes; leave it out, or fix sizes with input_shapes"
        )
    if executable.manifest.dynamic is None:
        return
    contents, context = contents_digest(model, DiskCache(None)), copy_context()

    def compile_apart(shapes: Shapes) -> Executable:
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
            path = Path(folder, "model.tw")

            def work() -> None:
                if contents_digest(model, DiskCache(None)) != contents:
                    raise ModelError(f"{os.fspath(model)} has changed since")
                context.run(compiled, shapes).save(path, durable=False)

            run_apart(work, f"a model for {dict(shapes)}")
            made = load(path)
        assert isinstance(made, Executable)
        return made

    executable.specialize(limit, compile_apart)
