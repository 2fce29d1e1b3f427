"""Texts kept as they should be: `check_golden` compares, `pytest --accept` rewrites."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "golden"

CheckGolden = Callable[[str, str], None]


def compare_or_accept(name: str, text: str, accept: bool) -> None:
    """Fail with a difference when `text` is not what tests/golden/NAME holds; with `accept`, write it there."""
    path = FOLDER / name
    text = text.rstrip("\n") + "\n"
    if accept:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return
    kept = path.read_text() if path.exists() else ""
    if text != kept:
        lines = difflib.unified_diff(kept.splitlines(), text.splitlines(), f"golden/{name}", "now", lineterm="")
        difference = "\n".join(lines)
        raise AssertionError(f"{name} has changed; if it should have, run with --accept\n{difference}")
