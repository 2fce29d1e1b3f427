"""A compiled model in the disk cache: loaded where it was compiled before, written where it was not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import ArtifactError
from tilewright.load import load
from tilewright.runtime.artifact import save_artifact, weights_bytes
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.model import Model
from tilewright.support import trace
from tilewright.support.cache import DiskCache
from tilewright.support.log import INFO, log

#: Bytes of weights from which an executable that was just compiled maps them from its entry in the cache.
WORTH_MAPPING = 16 << 20


class CacheEntry:
    """The entry of one compilation in the disk cache; none where the key is None."""

    def __init__(self, store: DiskCache, key: str | None, threads: int | None) -> None:
        self.store, self.key, self.threads = store, key, threads

    def load(self) -> Model | None:
        """The cached executable, or None when there is none or it is damaged (it is then compiled again).

        The weights are read to check them, at the speed of memory, where a load alone maps them.
        """
        return self._load("load from cache", check=True)

    def keep(self, manifest: Manifest, code: bytes, weights: Sequence[Any]) -> Model | None:
        """Write a model with large weights to the cache and map them from there, so that this process holds no copy."""
        if self.key is None or weights_bytes(manifest, weights) < WORTH_MAPPING:
            return None
        with trace.span("write to cache"):
            self.store.put_file(
                "artifact", self.key, lambda path: save_artifact(path, manifest, code, weights, durable=False)
            )
        kept = self._load("link", check=False)
        self.key = None  # whatever became of it, it is not tried again
        return kept

    def add(self, executable: Model) -> None:
        """Write an executable that was not kept."""
        if self.key is not None:
            with trace.span("write to cache"):
                self.store.put_file("artifact", self.key, lambda path: executable.save(path, durable=False))

    def _load(self, stage: str, check: bool) -> Model | None:
        found = self.store.find("artifact", self.key) if self.key is not None else None
        if found is None:
            return None
        try:
            with trace.span(stage):
                loaded = load(found, threads=self.threads, check=check)
        except ArtifactError as error:
            log(INFO, "compiling again: the cache's entry cannot be used: %s", error)
            return None
        log(INFO, "%s: %s", stage, found)
        return loaded
