"""The version of the package, installed or not."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from tilewright.support import version as module

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def test_without_an_installation_it_is_that_of_the_source_tree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(module.metadata, "version", absent)
    module.version.cache_clear()
    try:
        assert module.version() == tomllib.loads(PROJECT.read_text())["project"]["version"]
    finally:
        module.version.cache_clear()
    other = tmp_path / "pyproject.toml"
    for text in ("", "not toml", "[project]\nname = 'other'\nversion = '9'", "[project]\nname = 'tilewright'"):
        other.write_text(text)
        assert module._of_source_tree(other) == module.UNKNOWN
    assert module._of_source_tree(tmp_path / "none.toml") == module.UNKNOWN
