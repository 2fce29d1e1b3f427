"""Packages of extras, imported where they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from tilewright.errors import EnvironmentError_


def package(name: str, purpose: str, extra: str) -> Any:
    """The module `name`, which `purpose` needs. Raises `EnvironmentError_` with the extra that installs it.

    What a package that is installed cannot import itself is raised as it is.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name.partition(".")[0]):
            raise
        raise EnvironmentError_(
            f"{purpose} needs the package {name.partition('.')[0]}, which is not installed; "
            f"run: pip install 'tilewright[{extra}]'"
        ) from None
