"""The programs of docs/te.md run, one after the other."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "te.md"


def test_every_program_of_the_page_runs(capsys):
    programs = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(programs) >= 8
    scope = {}
    for program in programs:
        exec(compile(program, str(PAGE), "exec"), scope)
    assert "rfactor" in capsys.readouterr().out
