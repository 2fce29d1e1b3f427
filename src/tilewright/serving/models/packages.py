"""Packages of the extra [serve], imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from tilewright.errors import EnvironmentError_


def package(name: str) -> Any:
    """The module `name`; an `EnvironmentError_` that says how to install it where it is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name.partition(".")[0]):
            raise
        raise EnvironmentError_(
            f"the model server needs the package {error.name}: pip install 'tilewright[serve]'"
        ) from None
