"""The programs of docs/arith.md run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "arith.md"


def test_the_programs_of_the_page_run() -> None:
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(programs) == 5
    names: dict[str, Any] = {}
    for program in programs:
        exec(compile(program, str(PAGE), "exec"), names)
