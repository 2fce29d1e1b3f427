"""The shape of the tree: docs/layout.md names exactly the folders there are, and imports point down that page."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tilewright"
#: The folders of docs/layout.md, and the files that stand beside them, in the order of the page.
PAGE = re.findall(r"^\| `([\w/.]+)` \|", (ROOT / "docs" / "layout.md").read_text(), re.MULTILINE)
#: Folders of which docs/layout.md says that their modules know each other.
KNOTS = {"arith", "compat/classic", "relay/dataflow_pattern", "te", "tir"}
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def imported(path: Path) -> set[str]:
    """The modules of the package that a module imports, in functions and for type checkers too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in MODULES else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & MODULES.keys() - {"tilewright"}


def place(path: Path) -> str:
    """The line of the page that a module belongs to: its folder, or the file itself."""
    inner = path.relative_to(PACKAGE)
    return str(inner if inner.parent == Path() else inner.parent)


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES.values() if place(path) in PAGE],
    ids=lambda p: str(p.relative_to(PACKAGE)),
)
def test_imports_point_down(path: Path) -> None:
    own = place(path)
    upward = {name for name in imported(path) if PAGE.index(place(MODULES[name])) < PAGE.index(own)}
    if path.name == "__init__.py":
        upward = {name for name in upward if not place(MODULES[name]).startswith(f"{own}/")}
    assert not upward, f"{path.relative_to(ROOT)} imports {sorted(upward)}, which docs/layout.md has above {own}"


@pytest.mark.parametrize("folder", [name for name in PAGE if name not in KNOTS])
def test_modules_of_a_folder_import_in_no_circle(folder: str) -> None:
    inner = {name for name, path in MODULES.items() if place(path) == folder and path.name != "__init__.py"}
    graph = {name: imported(MODULES[name]) & inner for name in inner}
    while free := {name for name, needed in graph.items() if not needed}:
        graph = {name: needed - free for name, needed in graph.items() if name not in free}
    assert not graph, f"among {sorted(graph)} is a circle of imports"


def test_layout_page_names_the_folders() -> None:
    there = {place(path) for path in MODULES.values()}
    assert sorted(PAGE) == sorted(there - {"__init__.py", "__main__.py"})


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(p.relative_to(ROOT))
        for p in PACKAGE.rglob("*.py")
        if p.read_text().strip() and not ast.get_docstring(ast.parse(p.read_text()))
    ]
    assert not silent


def late_imports(tree: ast.Module) -> list[int]:
    """Lines of the imports within functions, but those of optional packages, whose `except` says what is missing."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    tried = {part for node in ast.walk(tree) if isinstance(node, ast.Try) for part in node.body}
    found = {
        node for function in functions for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)
    }
    return sorted(node.lineno for node in found - tried)


def test_a_module_says_why_its_functions_import() -> None:
    """One reason a module, above the first such import or beside it."""
    silent = []
    for path in PACKAGE.rglob("*.py"):
        lines = path.read_text().splitlines()
        late = late_imports(ast.parse(path.read_text()))
        if late and not any("# " in line for line in lines[late[0] - 2 : late[0]]):
            silent.append(f"{path.relative_to(ROOT)}:{late[0]}")
    assert not silent, "imports within functions without a comment that says why; most can stand at the top"
