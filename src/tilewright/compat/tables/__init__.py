"""The tables of classic names: `TABLES` has a `Table` a namespace, by dotted name, as `names.txt` lists them.

A paragraph there begins with one or more namespaces that hold the same names and with their docstring; its lines are

    like NAMESPACE …             all that another namespace has
    open MODULE …                all public names of a module
    MODULE: NAME CLASSIC=NAME …  names of a module, and those whose classic name is another
    absent NAME …: ADVICE        names that are not there on purpose, and what to use instead
    refused NAME …: ADVICE       names that may be imported, and raise the advice when they are used
    program                      `python -m` runs the `main` of the namespace

Lines that are indented further continue the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files

#: Top-level packages that the tables stand for.
ROOTS = ("tvm", "topi", "vta")


@dataclass
class Table:
    """One namespace: `names` maps each classic name to "module:attribute", or to "module" for a module.

    Programs import what is `refused` at their top and use it in some branch.
    """

    name: str
    doc: str
    names: dict[str, str] = field(default_factory=dict)
    open: tuple[str, ...] = ()
    absent: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    program: bool = False


#: By namespace its docstring and its lines.
_Paragraphs = Mapping[str, tuple[str, list[str]]]


def _paragraphs(text: str) -> _Paragraphs:
    found: dict[str, tuple[str, list[str]]] = {}
    lines: list[str] = []
    for line in text.replace("\n       ", " ").splitlines():
        if line.startswith("    "):
            lines.append(line.strip())
        elif line and not line.startswith("#"):
            names, _, doc = line.partition(": ")
            lines = []
            found |= dict.fromkeys(names.split(), (doc, lines))
    return found


def _table(name: str, paragraphs: _Paragraphs) -> Table:
    doc, lines = paragraphs[name]
    table = Table(name, doc)
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "program":
            table.program = True
        elif kind == "open":
            table.open += tuple(rest.split())
        elif kind in ("absent", "refused"):
            listed, _, advice = rest.partition(": ")
            getattr(table, kind).update(dict.fromkeys(listed.split(), advice))
        elif kind == "like":
            for other in rest.split():
                same = _table(other, paragraphs)
                table.open += same.open
                for entries in ("names", "absent", "refused"):
                    getattr(table, entries).update(getattr(same, entries))
        else:
            table.names |= dict(_entries(kind.removesuffix(":"), rest.split()))
    return table


def _entries(module: str, words: list[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        classic, _, own = word.partition("=")
        yield classic, f"{module}:{own or classic}"


_PARAGRAPHS = _paragraphs((files("tilewright.compat.tables") / "names.txt").read_text())
TABLES = {name: _table(name, _PARAGRAPHS) for name in _PARAGRAPHS}
#: Until v0.6 the operator library was a package of its own: `topi.nn` is `tvm.topi.nn`.
TABLES |= {name.removeprefix("tvm."): table for name, table in TABLES.items() if name.startswith("tvm.topi")}
