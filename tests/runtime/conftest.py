"""Shared by the runtime's tests: the hand-written kernels, and a cache directory of the session's own."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest


def _load_kernels() -> ModuleType:
    spec = importlib.util.spec_from_file_location("runtime_kernels", Path(__file__).with_name("kernels.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def kernels() -> ModuleType:
    """`kernels.py`: kernels as LLVM IR text, and `object_of` to compile them."""
    return _load_kernels()


@pytest.fixture(autouse=True, scope="session")
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the tests out of the user's cache."""
    patch = pytest.MonkeyPatch()
    directory = tmp_path_factory.mktemp("cache")
    patch.setenv("TILEWRIGHT_CACHE_DIR", str(directory))
    yield directory
    patch.undo()
