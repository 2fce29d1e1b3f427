"""docs/frontends.md is what scripts/frontends_table.py writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "frontends_table.py"


def test_the_page_is_current() -> None:
    """In a process of its own, whose tables hold no converters of other tests."""
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
