"""Packages of extras, imported where they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from tilewright.errors import EnvironmentError_


def package(name: str, purpose: str, extra: str) -> Any:
    """The module `name`, which `purpose` needs. Raises `EnvironmentError_` with the extra that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise EnvironmentError_(
            f"{purpose} needs the package {name.partition('.')[0]}, which is not installed; "
            f"run: pip install 'tilewright[{extra}]'"
        ) from None
