"""The page on Relay runs: its Python examples, in order, as one session."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "relay.md"


def test_the_examples_of_the_page_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 7
    session: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), session)
