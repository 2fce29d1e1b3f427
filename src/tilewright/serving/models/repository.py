"""The models of a server by name and version: found, loaded, swapped and unloaded while requests go on.

A repository is a folder NAME/VERSION/model.tw (or another format, which is compiled); a single file is version 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tilewright.errors import InputError, UserError
from tilewright.serving.models.errors import RequestError
from tilewright.serving.models.settings import ModelSettings
from tilewright.serving.models.version import Loaded, Loader, Version, load_model

READY, UNAVAILABLE, LOADING = "READY", "UNAVAILABLE", "LOADING"


class Repository:
    """The models that are served, for the event loop; they are loaded one after the other in a thread."""

    def __init__(self, sources: Sequence[str], settings: ModelSettings, loader: Loader = load_model) -> None:
        self._sources, self._settings, self._loader = tuple(sources), settings, loader
        self._models: dict[str, dict[str, Version]] = {}
        #: State and reason of models that have no version ready, by name.
        self._states: dict[str, tuple[str, str]] = {}
        self._thread = ThreadPoolExecutor(1, "tilewright-loading")
        self._closing: set[asyncio.Task[None]] = set()
        self._locks: dict[str, asyncio.Lock] = {}

    def find(self, name: str, version: str = "") -> Version:
        """The version that serves a request, the highest without one. Raises `RequestError`."""
        versions = self._models.get(name)
        if not versions:
            raise RequestError(f"Request for unknown model: {name!r} is not found", 404)
        if not version:
            return next(iter(versions.values()))
        found = versions.get(version)
        if found is None:
            raise RequestError(
                f"Request for unknown model: {name!r} version {version} is not found; there are {', '.join(versions)}",
                404,
            )
        return found

    def versions(self, name: str) -> list[str]:
        """The versions of a model that are ready, the highest last."""
        return list(self._models.get(name, {}))[::-1]

    def all(self) -> Iterator[Version]:
        """Every version that is ready."""
        return (version for versions in self._models.values() for version in versions.values())

    def names(self) -> list[str]:
        """The models that there are on disk now."""
        return list(self._found())

    def index(self) -> list[dict[str, str]]:
        """Each model that is ready or could be, with its state."""
        rows = [{"name": one.name, "version": one.version, "state": READY, "reason": ""} for one in self.all()]
        known = {**dict.fromkeys(self._found(), (UNAVAILABLE, "")), **self._states}
        for name, (state, reason) in known.items():
            if name not in self._models:
                rows.append({"name": name, "version": "", "state": state, "reason": reason})
        return sorted(rows, key=lambda row: (row["name"], row["version"]))

    async def load_all(self) -> None:
        """Load every model; one that fails keeps its reason. Raises `InputError` where there is none at all."""
        found = self._found()
        if not found:
            raise InputError(f"there are no models in {', '.join(self._sources)}")
        for name in found:
            try:
                await self.load(name)
            except RequestError as error:
                self._states[name] = (UNAVAILABLE, str(error))

    async def load(self, name: str, changes: dict[str, Any] | None = None) -> None:
        """Load a model as it is on disk now, and swap it in at once; what it replaces answers its requests first.

        Raises `RequestError`; then what served before goes on.
        """
        async with self._locks.setdefault(name, asyncio.Lock()):
            found = self._found().get(name)
            if found is None:
                raise RequestError(f"failed to load {name!r}: there is no such model", 404)
            self._states[name] = (LOADING, "")
            try:
                work = asyncio.get_running_loop().run_in_executor(self._thread, self._load, name, found, changes or {})
                loaded = await work
            except UserError as error:
                self._states[name] = (UNAVAILABLE, str(error))
                raise RequestError(f"failed to load {name!r}: {error}") from None
            self._swap(name, {one.version: Version(one) for one in loaded})

    def unload(self, name: str) -> None:
        """Take a model away; requests that it has are answered. Raises `RequestError` for an unknown one."""
        if name not in self._models and name not in self._found():
            raise RequestError(f"failed to unload {name!r}: there is no such model", 404)
        self._swap(name, {})
        self._states[name] = (UNAVAILABLE, "unloaded")

    async def close(self) -> None:
        """Answer what there is, and end all threads."""
        for name in list(self._models):
            self._swap(name, {})
        await asyncio.gather(*self._closing)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _swap(self, name: str, versions: dict[str, Version]) -> None:
        replaced = self._models.pop(name, {})
        if versions:
            self._models[name] = versions
            self._states.pop(name, None)
        for old in replaced.values():
            task = asyncio.get_running_loop().create_task(old.queue.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _load(self, name: str, found: list[tuple[str, Path]], changes: dict[str, Any]) -> list[Loaded]:
        loaded = []
        for version, path in found:
            settings = self._settings.of_folder(path.parent.parent).of_folder(path.parent)
            loaded.append(Loaded(name, version, path, settings.changed(changes, "the request"), self._loader))
        return loaded

    def _found(self) -> dict[str, list[tuple[str, Path]]]:
        """Names of models with their versions, the highest first, as they are on disk now."""
        found: dict[str, list[tuple[str, Path]]] = {}
        for source in self._sources:
            name, _, rest = source.rpartition("=")
            path = Path(rest)
            if path.is_dir() and not name and not _is_model(path):
                names = {folder.name: _versions(folder) for folder in sorted(path.iterdir()) if folder.is_dir()}
            else:
                names = {name or path.stem: [("1", path)]}
            for one, versions in names.items():
                if one in found:
                    raise InputError(f"two models are named {one!r}; write OTHER={path}")
                if versions:
                    found[one] = versions
        return found


def _is_model(folder: Path) -> bool:
    """True for a folder that is a model in itself, as a SavedModel is."""
    marks = ("saved_model.pb", "model.json", "inference.pdmodel", "Manifest.json")
    return any((folder / name).exists() for name in marks)


def _versions(folder: Path) -> list[tuple[str, Path]]:
    """The versions of a model's folder, the highest first; `model.tw` is preferred to other formats."""
    versions = []
    for inner in folder.iterdir():
        if inner.is_dir() and inner.name.isdecimal():
            files = sorted(inner.glob("model.*"), key=lambda path: (path.suffix != ".tw", path.name))
            if files:
                versions.append((inner.name, files[0]))
    return sorted(versions, key=lambda one: int(one[0]), reverse=True)
