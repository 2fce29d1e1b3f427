"""Write docs/frontends.md: which formats are read, and of each the operators that have a converter.

python scripts/frontends_table.py           # prints the page
python scripts/frontends_table.py --write   # writes it
python scripts/frontends_table.py --check   # fails where it is not current
"""

from __future__ import annotations

import sys
from pathlib import Path

from tilewright.frontend.interface import Frontend
from tilewright.frontends import FRONTENDS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "frontends.md"

_HEAD = """# Formats

The formats that models come in, as `src/tilewright/frontends.py` lists them, and of each what has a converter:
`scripts/frontends_table.py` writes this page, and a test keeps it current. A model is recognized by its contents, never
by its name. What has no converter is refused with one message that names every such operator, how often it comes and
where first; a plug-in can bring it ([plugins.md](plugins.md)).

| format | what is read | converters | of the format's own list |
|---|---|---|---|
"""


def page() -> str:
    """The page's text."""
    rows, parts = [], []
    for frontend in FRONTENDS:
        groups = frontend.operators()
        count = ", ".join(f"{len(names)} {kind}" for kind, names in groups.items()) or "–"
        rows.append(f"| {frontend.name} | {frontend.kind} | {count} | {_share(frontend)} |\n")
        for kind, names in groups.items():
            parts.append(f"\n## {frontend.name}: {kind}\n\n{_listed(names)}\n")
        if frontend.missing():
            parts.append(f"\nWithout a converter:\n\n{_listed(frontend.missing() or [])}\n")
    return _HEAD + "".join(rows) + "".join(parts)


def _share(frontend: Frontend) -> str:
    missing = frontend.missing()
    return "–" if missing is None else f"{len(missing)} missing"


def _listed(names: list[str]) -> str:
    """Names in lines of at most 118 characters."""
    lines, line = [], ""
    for index, name in enumerate(names):
        piece = f"`{name}`" + ("," if index + 1 < len(names) else "")
        if line and len(line) + len(piece) + 1 > 118:
            lines.append(line)
            line = piece
        else:
            line = f"{line} {piece}".strip()
    return "\n".join([*lines, line])


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page())
    elif "--check" in sys.argv:
        if not PAGE.is_file() or PAGE.read_text() != page():
            sys.exit("docs/frontends.md is not current; run scripts/frontends_table.py --write")
    else:
        print(page(), end="")
