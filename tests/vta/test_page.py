"""docs/vta.md: its tables are those of the code, and its programs run."""

from __future__ import annotations

import re
from pathlib import Path

from tests.vta.test_programs import KINDS
from tilewright.vta import Config, Isa
from tilewright.vta.isa import MEMORY_IDS, Field, Format

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "vta.md").read_text()


def bits(field: Field) -> str:
    """A field with its bits, both ends within."""
    return f"{field.name} {field.low}–{field.high}" if field.width > 1 else f"{field.name} {field.low}"


def table(isa: Isa) -> list[str]:
    """The instructions as rows of a table; the fields that all have stand in a row of their own."""
    common = isa.formats["FINISH"].fields
    rows = [f"| all | | {', '.join(map(bits, common))} |"]
    for number, form in sorted((form_opcode(form), form) for form in isa.formats.values()):
        rows.append(f"| {form.name} | {number} | {', '.join(bits(f) for f in form.fields[len(common) :]) or 'none'} |")
    return rows


def form_opcode(form: Format) -> int:
    names = form.by_name["opcode"].names
    assert names is not None
    return names[form.name]


def meanings(isa: Isa) -> list[str]:
    """The fields of all instructions with what they mean, each once; values that have names with their numbers."""
    found: dict[str, str] = {}
    for field in (field for form in isa.formats.values() for field in form.fields):
        known = field.names if field.name == "op" else None
        values = f": {', '.join(f'{name} {number}' for name, number in known.items())}" if known else ""
        found.setdefault(field.name, f"| {field.name} | {field.meaning}{values} |")
    return list(found.values())


def test_the_tables_are_those_of_the_code() -> None:
    isa = Isa()
    assert "\n".join(table(isa)) in PAGE
    assert "\n".join(meanings(isa)) in PAGE
    assert f"works on: {', '.join(map(bits, isa.uop.fields))}." in PAGE
    assert Config().name in PAGE


def test_the_memories_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (\w+) \| (\d) \| .* \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    memories = Isa().memories
    assert {name: (int(n), int(size), int(depth)) for name, n, size, depth in rows} == {
        name: (number, memories[name].element_bytes, memories[name].depth) for name, number in MEMORY_IDS.items()
    }


def test_the_kinds_of_refusal_are_listed() -> None:
    listed = re.findall(r"^\| (\w+) \| ", PAGE[PAGE.index("| kind | rule |") :], re.MULTILINE)
    assert listed[1:] == KINDS


def test_the_programs_run() -> None:
    session: dict[str, object] = {}
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert programs
    for program in programs:
        exec(program, session)
