"""The benches import each other as scripts do: from their own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

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
