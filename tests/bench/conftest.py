"""The benches import each other as scripts do: from their own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

#: Files of tests that measure or search whole models; the others check what benches compute with.
_LONG = {
    "test_benches.py",
    "test_fuzz.py",
    "test_mutations.py",
    "test_replay_loops.py",
    "test_zoo.py",
}

BENCH = Path(__file__).resolve().parent.parent.parent / "bench"


@pytest.fixture(autouse=True)
def bench_folder(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the benches, on the import path for one test."""
    monkeypatch.syspath_prepend(str(BENCH))
    return BENCH


@pytest.fixture
def peers() -> str:
    """The engines installed here, as the benches' `--compare` takes them."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    return "onnxruntime"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests of whole measurements as long."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name in _LONG:
            item.add_marker(pytest.mark.long)
