"""Suggestions for unknown names: the nearest, else a short list."""

from __future__ import annotations

from tilewright.support.suggestion import nearest, suggestion


def test_the_nearest_names_are_suggested() -> None:
    assert suggestion("benhc", ["run", "bench"]) == "; did you mean 'bench'?"
    assert nearest("llmv", ["cpu", "llvm"]) == "; did you mean 'llvm'?"


def test_where_none_is_near_a_short_list_is_shown() -> None:
    assert suggestion("xyz", ["run", "bench"]) == "; there are: run, bench" and nearest("xyz", ["run"]) == ""
    assert suggestion("xyz", [f"name{i}" for i in range(500)]) == "" and suggestion("xyz", []) == ""
