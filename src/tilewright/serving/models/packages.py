"""Packages of the extra [serve], imported when they are needed."""

from __future__ import annotations

from typing import Any

from tilewright.support import packages


def package(name: str) -> Any:
    """The module `name`. Raises `EnvironmentError_` that says how to install it where it is missing."""
    return packages.package(name, "the model server", "serve")
