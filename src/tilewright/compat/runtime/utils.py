"""`tvm.contrib.utils` and other small helpers of classic scripts."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


class TempDirectory:
    """A directory that is removed with this object."""

    def __init__(self, custom_path: str | None = None, keep_for_debug: bool = False) -> None:
        self._owner = None if custom_path else tempfile.TemporaryDirectory(prefix="tilewright_")
        self.temp_dir = custom_path or (self._owner.name if self._owner else "")
        Path(self.temp_dir).mkdir(parents=True, exist_ok=True)

    def relpath(self, name: str) -> str:
        """The path of `name` within the directory."""
        return str(Path(self.temp_dir) / name)

    def path(self) -> str:
        """The path of the directory."""
        return self.temp_dir

    def listdir(self) -> list[str]:
        """The names in the directory."""
        return os.listdir(self.temp_dir)

    def remove(self) -> None:
        """Remove the directory now."""
        if self._owner is not None:
            self._owner.cleanup()


def memoize(key: str, save_at_exit: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Keep the results of a function within this process, by its arguments; nothing is written to disk."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        return functools.lru_cache(maxsize=None)(function)

    return decorate


def no_gpu(*_: Any) -> bool:
    """False: no GPU with this ability is compiled for."""
    return False
