"""docs/operators.md is what scripts/operators_table.py writes from the registry."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "operators_table.py"


def test_the_page_is_current() -> None:
    """In a process of its own, whose registry holds no operators of other tests."""
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run python scripts/operators_table.py {done.stderr}"
