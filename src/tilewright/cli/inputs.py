"""Inputs for a model: read from files, or random within what models of that dtype expect."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import InputError, ShapeError

#: Random integers stay below this, so that they are valid as token ids, byte values and indices.
INTEGER_LIMIT = 100

Arrays = dict[str, np.ndarray[Any, Any]]


def random_inputs(specs: Any, seed: int) -> Arrays:
    """One array per input: standard normal floats, integers in [0, 100), random bools."""
    generator = np.random.default_rng(seed)
    made: Arrays = {}
    for spec in specs:
        _require_shape(spec)
        if spec.dtype.is_float:
            made[spec.name] = generator.standard_normal(spec.shape).astype(spec.numpy)
        elif spec.dtype.is_bool:
            made[spec.name] = generator.random(spec.shape) < 0.5
        else:
            made[spec.name] = generator.integers(0, INTEGER_LIMIT, spec.shape).astype(spec.numpy)
    return made


def _require_shape(spec: Any) -> None:
    """Raise ShapeError or InputError where random values cannot be made: no fixed shape, or no tensor of numbers."""
    if spec.shape is None or spec.dtype.is_string:
        raise InputError(f"input {spec} has no random values; give it with --input {spec.name}=FILE.npy")
    loose = [dim for dim in spec.shape if not isinstance(dim, int)]
    if loose:
        example = ",".join(str(dim) if isinstance(dim, int) else "1" for dim in spec.shape)
        shapes, file = f'--input-shapes "{spec.name}:[{example}]"', f"--input {spec.name}=FILE.npy"
        raise ShapeError(
            f"input {spec.name!r} has the dynamic dimension{'s' if len(loose) > 1 else ''} "
            f"{', '.join(map(str, loose))}; fix them with {shapes}, or give the input with {file}"
        )


def read_inputs(files: dict[str, Path]) -> Arrays:
    """The arrays of `.npy` files. Raises InputError naming the file that cannot be read."""
    return {name: _read_array(name, path) for name, path in files.items()}


def _read_array(name: str, path: Path) -> np.ndarray[Any, Any]:
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            file.seek(0)
            return np.lib.format.read_array(file, allow_pickle=False) if version else np.empty(0)
    except OSError as error:
        reason = error.strerror or str(error)
    except (ValueError, EOFError) as error:
        reason = str(error).splitlines()[0]
    raise InputError(f"input {name!r}: {path} cannot be read as a .npy file ({reason})")


def complete_inputs(specs: Iterable[Any], given: Arrays, seed: int | None) -> tuple[Arrays, int | None]:
    """`given` with random arrays for the inputs it lacks, and their seed (None when nothing was lacking).

    `seed` None draws a fresh one. Raises InputError when `given` names an input that the model does not have.
    """
    specs = list(specs)
    names = [spec.name for spec in specs]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InputError(f"the model has no input {unknown[0]!r}; its inputs are: {', '.join(map(str, specs))}")
    missing = [spec for spec in specs if spec.name not in given]
    if not missing:
        return given, None
    seed = fresh_seed() if seed is None else seed
    return given | random_inputs(missing, seed), seed


def fresh_seed() -> int:
    """A seed that differs from run to run, small enough to type."""
    return int(np.random.default_rng().integers(1_000_000))
