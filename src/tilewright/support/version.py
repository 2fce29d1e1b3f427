"""The version of this package: of its installation, else of the source tree that it is run from."""

from __future__ import annotations

import functools
from importlib import metadata
from pathlib import Path

#: The version where neither an installation nor a source tree names one.
UNKNOWN = "0+unknown"


@functools.cache
def version() -> str:
    """The version as text, such as "0.9.0"; `UNKNOWN` where nothing names it."""
    try:
        return metadata.version("tilewright")
    except metadata.PackageNotFoundError:
        return _of_source_tree(Path(__file__).resolve().parents[3] / "pyproject.toml")


def _of_source_tree(project: Path) -> str:
    """The version that a project file of ours states."""
    # installed packages have no use for it, and loading a model takes few milliseconds
    import tomllib

    try:
        stated = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    except (OSError, ValueError, KeyError):
        return UNKNOWN
    return str(stated.get("version", UNKNOWN)) if stated.get("name") == "tilewright" else UNKNOWN
