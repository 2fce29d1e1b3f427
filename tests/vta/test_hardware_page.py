"""docs/vta_hardware.md: its programs run, and its table of versions is that of the code."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.vta import Config, Isa
from tilewright.vta.isa import ALU_OPS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "vta_hardware.md").read_text()


def test_the_programs_run() -> None:
    session: dict[str, object] = {}
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert programs
    for program in programs:
        exec(program, session)


def test_the_versions_are_those_of_the_code() -> None:
    for name in ("CLIP", "MOV", "MUL8"):
        assert f"{name} ({ALU_OPS[name]})" in PAGE
    load = Isa(Config(isa_version=2)).formats["LOAD"].by_name
    assert f"at bits {load['pad_value'].low}–{load['pad_value'].high}" in PAGE
    assert f"`dram` bits {load['dram'].low}–{load['dram'].high}" in PAGE
