"""Draw which top-level folders of a package import which: one matrix a tree, dots right of the diagonal point upwards.

    python scripts/structure.py OUT.svg "before=../old/src/tilewright" "now=src/tilewright"

Rows and columns are the folders and files beside `__init__.py`, in an order with as few imports upwards as a greedy
choice finds. Imports within functions count, and so does access through the package (`import tilewright`).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path

#: Pixels of a cell and of the names beside the rows.
CELL, NAMES = 14, 130
Graph = dict[str, set[str]]


def imported(path: Path, tops: set[str]) -> set[str]:
    """The top-level folders and files that a module uses."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [f"{node.value.id}.{node.attr}"]
        found |= {name.split(".")[1] for name in names if name.startswith("tilewright.")}
    return found & tops


def graph_of(package: Path) -> Graph:
    """The other top-level folders and files that each imports."""
    ours = [
        path for path in package.iterdir() if not path.name.startswith("__") and (path.is_dir() or path.suffix == ".py")
    ]
    graph: Graph = {path.stem: set() for path in ours}
    for path in ours:
        for module in [path] if path.is_file() else path.rglob("*.py"):
            graph[path.stem] |= imported(module, set(graph)) - {path.stem}
    return {name: used for name, used in graph.items() if used or any(name in other for other in graph.values())}


def ordered(graph: Mapping[str, set[str]]) -> list[str]:
    """The names from the top down: next is the one that the fewest of those left import."""
    left, order = set(graph), []
    while left:
        order.append(
            min(sorted(left), key=lambda name: (sum(name in graph[one] for one in left), -len(graph[name] & left)))
        )
        left.remove(order[-1])
    return order


def upwards(graph: Mapping[str, set[str]], order: list[str]) -> list[tuple[str, str]]:
    """The imports from a folder to one above it."""
    return [(name, used) for name in order for used in sorted(graph[name]) if order.index(used) < order.index(name)]


def matrix(title: str, graph: Mapping[str, set[str]], left: int) -> list[str]:
    """The parts of the picture for one tree, from `left` on."""
    order = ordered(graph)
    wrong = set(upwards(graph, order))
    parts = [f'<text x="{left}" y="16" font-size="14">{escape(title)}: {len(wrong)} of '
             f'{sum(map(len, graph.values()))} point upwards</text>']  # fmt: skip
    for row, name in enumerate(order):
        y = 30 + CELL * row
        parts.append(f'<text x="{left + NAMES - 6}" y="{y + 11}" text-anchor="end">{escape(name)}</text>')
        parts.append(
            f'<rect class="own" x="{left + NAMES + CELL * row}" y="{y}" width="{CELL - 1}" height="{CELL - 1}"/>'
        )
        for used in graph[name]:
            kind, x = "up" if (name, used) in wrong else "down", left + NAMES + CELL * order.index(used)
            parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" rx="3"/>')
    return parts


def picture(trees: Mapping[str, Path]) -> str:
    """All trees beside each other, for light and dark pages."""
    graphs = {title: graph_of(package) for title, package in trees.items()}
    parts, left = [], 0
    for title, graph in graphs.items():
        parts += matrix(title, graph, left)
        left += NAMES + CELL * len(graph) + 30
    height = 40 + CELL * max(map(len, graphs.values()))
    style = "text{fill:#1f2328}.own{fill:#8885}.down{fill:#0b6e99}.up{fill:#d9730d}"
    dark = "text{fill:#e6edf3}.down{fill:#4db1dd}.up{fill:#f0a35e}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left} {height}" font-size="11"'
    head += ' font-family="sans-serif">'
    return "\n".join([head, f"<style>{style}@media(prefers-color-scheme:dark){{{dark}}}</style>", *parts, "</svg>\n"])


if __name__ == "__main__":
    out, *named = sys.argv[1:]
    Path(out).write_text(picture({title: Path(folder) for title, folder in (one.split("=", 1) for one in named)}))
