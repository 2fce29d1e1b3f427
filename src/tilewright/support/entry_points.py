"""Plug-ins that installed packages bring: their entry points, loaded on first use, and their code as part of the
cache's key.

    [project.entry-points."tilewright.converters"]      # in the plug-in's pyproject.toml
    wavelets = "wavelets.tilewright"                    # a module, whose import registers, or "module:function"

docs/plugins.md describes the groups.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tilewright.errors import EnvironmentError_, TilewrightError
from tilewright.support import knobs, plugins
from tilewright.support.cache import digest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

FRONTENDS = "tilewright.frontends"
CONVERTERS = "tilewright.converters"
OPERATORS = "tilewright.operators"
PASSES = "tilewright.passes"
DEVICES = "tilewright.devices"

#: What is code in the files of a package.
_CODE = (".py", ".so", ".pyd")

_loaded: set[str] = set()


def load_plugins(*groups: str) -> list[Any]:
    """Load the plug-ins of `groups`, each once a process: import the module, call the function or class.

    Returns the results of the functions and classes; nothing of groups that were loaded before.
    Raises `EnvironmentError_` naming the package where one fails.
    """
    made = []
    for group in groups:
        if group in _loaded or not knobs.PLUGINS.get():
            continue
        # a saved model needs none, and the module takes longer to import than such a model to load
        from importlib.metadata import entry_points

        _loaded.add(group)  # before: what a plug-in calls while it registers may ask for plug-ins
        for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
            plugins.remember("entry point", f"{group} {entry.name}", _contents(entry))
            plugins.remember_module(entry.module)
            made += _registered(entry, group)
    return made


def _registered(entry: EntryPoint, group: str) -> list[Any]:
    """The registrations of the function or class that an entry point names; nothing where it names a module."""
    try:
        found = entry.load()
        return [] if isinstance(found, ModuleType) else [found()]
    except TilewrightError:
        raise
    except (Exception, SystemExit) as error:  # whatever a stranger's code raises
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an installed package"
        raise EnvironmentError_(
            f"the plug-in {entry.name!r} ({group}: {entry.value}) of {package} cannot be loaded: "
            f"{type(error).__name__}: {error}. Repair or uninstall that package, or switch plug-ins off "
            f"with {knobs.PLUGINS.name}=0"
        ) from error


def _contents(entry: EntryPoint) -> str:
    """A digest of the code of the package that an entry point comes from."""
    files = sorted(path for path in _files(entry) if path.suffix in _CODE and path.is_file())
    version = entry.dist.version if entry.dist is not None else ""
    return digest(entry.value, version, *(part for path in files for part in (str(path), path.read_bytes())))


def _files(entry: EntryPoint) -> Iterator[Path]:
    """The files that the package was installed with, where that is known, or else those of its folder."""
    listed = entry.dist.files if entry.dist is not None else None
    if listed is not None:
        yield from (Path(str(path.locate())) for path in listed)
        return
    spec = importlib.util.find_spec(entry.module.partition(".")[0])
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        yield Path(spec.origin or "")
    for folder in spec.submodule_search_locations or ():
        yield from Path(folder).rglob("*")
