"""Inputs for a model: read from files, or random within what models of that dtype expect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import InputError

#: Random integers stay below this, so that they are valid as token ids, byte values and indices.
INTEGER_LIMIT = 100


def random_inputs(specs: Any, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """One array per input: standard normal floats, integers in [0, 100), random bools."""
    generator = np.random.default_rng(seed)
    made = {}
    for spec in specs:
        kind = np.dtype(spec.dtype) if spec.dtype != "bfloat16" else np.dtype("float32")
        if kind.kind == "f":
            made[spec.name] = generator.standard_normal(spec.shape).astype(kind)
        elif kind.kind == "b":
            made[spec.name] = generator.random(spec.shape) < 0.5
        else:
            made[spec.name] = generator.integers(0, INTEGER_LIMIT, spec.shape).astype(kind)
    return made


def read_inputs(files: dict[str, Path]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of `.npy` files. Raises InputError naming the file that cannot be read."""
    arrays = {}
    for name, path in files.items():
        try:
            arrays[name] = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"input {name!r}: {path} cannot be read as a .npy file ({error})") from None
    return arrays


def fresh_seed() -> int:
    """A seed that differs from run to run, small enough to type."""
    return int(np.random.SeedSequence().entropy) % 1_000_000  # type: ignore[arg-type]
