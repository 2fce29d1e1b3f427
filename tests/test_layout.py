"""The shape of the tree: docs/layout.md names exactly the folders there are, and imports point down that page."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import tilewright

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tilewright"
TEXT = (ROOT / "docs" / "layout.md").read_text()
#: The top-level folders and files, in the order of the table of docs/layout.md.
TOP = re.findall(r"^\| `([\w/.]+)` \|", TEXT, re.MULTILINE)
#: The folders within the top-level ones that have any, in the order of the lists of the page.
INNER = re.findall(r"^- `([\w/.]+)`: ", TEXT, re.MULTILINE)
#: All of the tree in order: each line of the table, or its list in its place.
PAGE = [one for top in TOP for one in ([name for name in INNER if name.split("/")[0] == top] or [top])]
#: Rows of the table at most: a reader takes in the whole of it.
MOST_ROWS = 45
#: Folders of which docs/layout.md says that their modules know each other.
KNOTS = {"tir/arith", "relay/dataflow_pattern", "te", "tir"}
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


@functools.cache
def imports_of(path: Path) -> set[str]:
    """`imported` of a file."""
    return imported(ast.parse(path.read_text()))


def imported(tree: ast.Module) -> set[str]:
    """The modules of the package that a module uses: imports, in functions and for type checkers too, and attributes
    of the package itself.
    """
    found = set()
    names = set()  # of the package in this module
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {_defining(f"{node.module}.{alias.name}", node.module) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            ours = [alias for alias in node.names if alias.name.split(".")[0] == "tilewright"]
            names |= {alias.asname or "tilewright" for alias in ours if alias.name == "tilewright" or not alias.asname}
    for node in nodes if names else ():
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
            found.add(_defining(f"tilewright.{node.attr}", "tilewright"))
    return found & MODULES.keys() - {"tilewright"}


def _defining(name: str, module: str) -> str:
    """The module that `name`, got from `module`, is or comes from; public names come from below the package."""
    public = tilewright._PUBLIC.get(name.removeprefix("tilewright."))
    if module == "tilewright" and public is not None:
        return public[0]
    return name if name in MODULES else module


@functools.cache
def folder_of(path: Path) -> str:
    """The line of the page that a module belongs to: its folder, or the file itself."""
    inner = path.relative_to(PACKAGE)
    return str(inner if inner.parent == Path() else inner.parent)


def top_of(path: Path) -> str:
    """The row of the table that a module belongs to."""
    return path.relative_to(PACKAGE).parts[0]


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES.values() if folder_of(path) in PAGE],
    ids=lambda p: str(p.relative_to(PACKAGE)),
)
def test_imports_point_down(path: Path) -> None:
    own = folder_of(path)
    upward = {name for name in imports_of(path) if PAGE.index(folder_of(MODULES[name])) < PAGE.index(own)}
    if path.name == "__init__.py":
        upward = {name for name in upward if not folder_of(MODULES[name]).startswith(f"{own}/")}
    assert not upward, f"{path.relative_to(ROOT)} imports {sorted(upward)}, which docs/layout.md has above {own}"


def in_circles(graph: Mapping[str, set[str]]) -> list[str]:
    """The nodes of a graph that are on a circle, or on a way to one."""
    left = {name: set(needed) for name, needed in graph.items()}
    while free := {name for name, needed in left.items() if not needed & left.keys()}:
        left = {name: needed for name, needed in left.items() if name not in free}
    return sorted(left)


def test_top_level_folders_import_in_no_circle() -> None:
    graph: dict[str, set[str]] = {}
    for path in MODULES.values():
        if path != PACKAGE / "__init__.py":  # hands public names on
            tops = {top_of(MODULES[name]) for name in imports_of(path)}
            graph.setdefault(top_of(path), set()).update(tops - {top_of(path)})
    assert not in_circles(graph)


@pytest.mark.parametrize("folder", [name for name in PAGE if name not in KNOTS])
def test_modules_of_a_folder_import_in_no_circle(folder: str) -> None:
    inner = {name for name, path in MODULES.items() if folder_of(path) == folder and path.name != "__init__.py"}
    circle = in_circles({name: imports_of(MODULES[name]) & inner for name in inner})
    assert not circle, f"among {circle} is a circle of imports"


def test_layout_page_names_the_folders() -> None:
    there = {folder_of(path) for path in MODULES.values()} - {"__init__.py", "__main__.py"}
    assert sorted(PAGE) == sorted(there)
    assert sorted(TOP) == sorted({name.split("/")[0] for name in there}) and len(TOP) <= MOST_ROWS
    assert [name for name in PAGE if name in INNER] == INNER, "the lists stand in the order of the table"


@pytest.mark.parametrize(
    ("program", "modules"),
    [
        ("from tilewright.relay.ir.expr import Call", {"tilewright.relay.ir.expr"}),
        ("def f():\n    from tilewright import vta", {"tilewright.vta"}),
        ("from tilewright import compile", {"tilewright.compile"}),
        ("import tilewright\ntilewright.vta.run_plan()", {"tilewright.vta"}),
        ("import tilewright as tw\ntw.arith.Analyzer()", {"tilewright.tir.arith"}),
        ("import tilewright.relay.op.host\ntilewright.codegen", {"tilewright.relay.op.host", "tilewright.codegen"}),
        ("import numpy as tilewright_like\ntilewright_like.vta", set()),
    ],
)
def test_the_scan_sees_imports_and_the_package_itself(program: str, modules: set[str]) -> None:
    assert imported(ast.parse(program)) == modules


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in MODULES.values()
        if path.read_text().strip() and not re.match(r'(#.*\n|\s)*r?"""\S', path.read_text())
    ]
    assert not silent


def late_imports(tree: ast.Module) -> list[int]:
    """Lines of the imports within functions, but those of optional packages, whose `except` says what is missing."""
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    tried = {part for node in nodes if isinstance(node, ast.Try) for part in node.body}
    found = {
        node for function in functions for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)
    }
    return sorted(node.lineno for node in found - tried)


def test_a_module_says_why_its_functions_import() -> None:
    """One reason a module, above the first such import or beside it."""
    silent = []
    for path in MODULES.values():
        text = path.read_text()
        lines = text.splitlines()
        late = late_imports(ast.parse(text)) if re.search(r"^\s+(import|from) ", text, re.MULTILINE) else []
        if late and not any("# " in line for line in lines[late[0] - 2 : late[0]]):
            silent.append(f"{path.relative_to(ROOT)}:{late[0]}")
    assert not silent, "imports within functions without a comment that says why; most can stand at the top"


def test_context_variables_hold_blocks_of_users() -> None:
    """The modules that docs/layout.md lists; whatever else a function needs is an argument."""
    found = {path.relative_to(PACKAGE).as_posix() for path in MODULES.values() if "ContextVar(" in path.read_text()}
    assert found == {
        "autotvm/template/dispatch.py", "compat/target/target.py", "records/context.py",
        "relay/transform/layout/convert_layout.py", "relay/transform/manager/pass_manager.py",
        "relay/transform/manager/scoped_rules.py", "relay/transform/quantize/qconfig.py", "support/trace.py",
        "te/itervar.py", "te/tag.py", "topi/shapes.py",
    }  # fmt: skip
