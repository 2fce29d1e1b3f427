"""Fixtures that all tests share: a cache of this run's own, and texts kept as they should be."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Where bytecode may not be kept beside the sources, each of the hundreds of processes that the tests start would
# compile all modules again, which takes longer than most tests: keep it in the environment instead.
if sys.dont_write_bytecode and sys.pycache_prefix is None:
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(Path(sys.prefix).resolve() / ".bytecode")
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from tests.golden import CheckGolden, compare_or_accept
from tests.sample import sample


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--accept` rewrites the files in tests/golden; `--long` runs the tests marked `long` too."""
    parser.addoption("--accept", action="store_true", help="take the texts of this run as the golden ones")
    parser.addoption("--long", action="store_true", help="run the tests marked `long` as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the tests marked `long`, and of those marked `sample` all cases but some, unless `--long` was given."""
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="takes long; runs under `scripts/test --all` or `pytest --long`")
    of_a_test: dict[str, list[pytest.Function]] = {}
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.add_marker(skip)
        elif isinstance(item, pytest.Function) and item.get_closest_marker("sample") is not None:
            of_a_test.setdefault(f"{item.path}::{item.originalname}", []).append(item)
    for cases in of_a_test.values():
        mark = cases[0].get_closest_marker("sample")
        assert mark is not None
        kept = sample({case.name: set(case.callspec.indices.items()) for case in cases}, *mark.args)
        for case in cases:
            if case.name not in kept:
                case.add_marker(skip)


def pytest_collection_finish() -> None:
    """Thirteen thousand tests and all modules stay: do not look through them for garbage again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> CheckGolden:
    """`check_golden("name.txt", text)`: `text` is what tests/golden/name.txt holds."""
    return lambda name, text: compare_or_accept(name, text, request.config.getoption("--accept"))


@pytest.fixture(scope="session", autouse=True)
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """TILEWRIGHT_CACHE_DIR is a fresh directory, shared by the tests of this process: never the user's own cache.

    Nor what was measured of this machine: the tests see the shipped figures.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("TILEWRIGHT_CALIBRATION", "0")
        yield
