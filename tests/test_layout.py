"""The shape of the source tree: imports point one way, and docs/layout.md names exactly the folders that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tilewright"
#: A layer may import itself and the layers after it. `tir` and `arith` are one pair.
LAYERS = [
    {"compat"}, {"cli"}, {"compile"}, {"specialize"}, {"frontend"}, {"driver"}, {"relay"}, {"backend"}, {"topi"},
    {"te"}, {"codegen"}, {"tir", "arith"}, {"target", "device_target"}, {"machine_store"}, {"machine"}, {"runtime"},
    {"errors", "support"},
]  # fmt: skip
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def imported_layers(path: Path) -> set[str]:
    """Names of the layers that a module imports, in functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tilewright"):
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("tilewright.")}
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    layer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if layer in ("__init__", "__main__"):
        return
    upward = {name for name in imported_layers(path) if name in RANK and RANK[name] < RANK[layer]}
    assert not upward, f"{path.relative_to(ROOT)} imports {sorted(upward)}, which lie above {layer}"


def test_layout_page_names_the_folders() -> None:
    folders = {str(p.parent.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py")} - {"."}
    named = set(re.findall(r"^\| `([\w/]+)` \|", (ROOT / "docs" / "layout.md").read_text(), re.MULTILINE))
    assert named == folders


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
