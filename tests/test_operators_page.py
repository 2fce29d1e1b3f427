"""docs/operators.md is what scripts/operators_table.py writes from the registry."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_page_is_current() -> None:
    spec = importlib.util.spec_from_file_location("operators_table", ROOT / "scripts" / "operators_table.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    written = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    assert script.page() == written, "run python scripts/operators_table.py"
