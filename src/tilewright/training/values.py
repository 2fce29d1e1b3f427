"""Values of parameters and state by name: compared with those of another training, and written for PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tilewright.errors import InputError
from tilewright.support.cache import atomic_file
from tilewright.support.packages import package
from tilewright.training.checkpoint import Array


def fitting(wanted: Mapping[str, Array], given: Mapping[str, Array]) -> dict[str, Array]:
    """Copies of `given`, in the order of `wanted`. Raises `InputError` where names, shapes or types differ."""
    if wanted.keys() != given.keys():
        odd = ", ".join(sorted(wanted.keys() ^ given.keys()))
        raise InputError(f"these are of another network or optimizer: {odd} is in one of both alone")
    for name, value in wanted.items():
        if np.shape(value) != np.shape(given[name]) or np.asarray(value).dtype != np.asarray(given[name]).dtype:
            raise InputError(
                f"{name} is {np.asarray(given[name]).dtype}{list(np.shape(given[name]))} there, "
                f"and {np.asarray(value).dtype}{list(np.shape(value))} here"
            )
    return {name: np.array(given[name]) for name in wanted}


def write_parameters(path: Path, parameters: Mapping[str, Array]) -> None:
    """Write parameters to a file of safetensors, whole or not at all."""
    arrays = {name: np.ascontiguousarray(value) for name, value in parameters.items()}
    contents = package("safetensors.numpy", "saving parameters", "train").save(arrays)
    with atomic_file(path) as temporary:
        temporary.write_bytes(contents)
