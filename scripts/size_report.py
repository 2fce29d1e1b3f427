"""Print how large the code is: files, lines, the longest files and functions, and fail where a limit is passed.

Limits: 600 lines a file, 80 lines a function. The aim is less: 500 and 40.
"""

from __future__ import annotations

import ast
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE_LIMIT, FUNCTION_LIMIT = 600, 80


def function_lengths(path: Path) -> list[tuple[int, str]]:
    """(lines, name) of each function of a file."""
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
        for node in ast.walk(tree)
        if isinstance(node, kinds)
    ]


def main() -> int:
    """Print the report; 1 if a limit is passed."""
    files = sorted((ROOT / "src").rglob("*.py"))
    lengths = [(len(path.read_text().splitlines()), str(path.relative_to(ROOT))) for path in files]
    functions = [entry for path in files for entry in function_lengths(path)]
    sizes = sorted(n for n, _ in lengths if n)
    print(f"{len(files)} files, {sum(sizes)} lines, median {statistics.median(sizes):.0f} lines a file")
    tenth = sorted(n for n, _ in functions)[len(functions) * 9 // 10]
    print(f"{len(functions)} functions, 90th percentile {tenth} lines")
    for title, entries in (("longest files", lengths), ("longest functions", functions)):
        print(f"{title}:")
        for count, name in sorted(entries, reverse=True)[:5]:
            print(f"  {count:4d}  {name}")
    over = [name for count, name in lengths if count > FILE_LIMIT]
    over += [name for count, name in functions if count > FUNCTION_LIMIT]
    for name in over:
        print(f"over the limit: {name}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
