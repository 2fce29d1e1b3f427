"""Print the share of statements that the tests ran, by folder of docs/layout.md, the least covered first.

scripts/test --coverage [pytest's arguments]      # runs the tests under coverage.py, then this
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

PACKAGE = "src/tilewright/"


def by_folder(files: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """(folder, statements run, statements) of the files of coverage.py's JSON report, the least covered first."""
    totals: dict[str, tuple[int, int]] = {}
    for name, of in files.items():
        _, _, inner = name.partition(PACKAGE)
        folder = str(PurePosixPath(inner).parent) if "/" in inner else inner
        run, all_ = totals.get(folder, (0, 0))
        summary = of["summary"]
        totals[folder] = run + summary["covered_lines"], all_ + summary["num_statements"]
    rows = [(folder, run, all_) for folder, (run, all_) in totals.items() if all_]
    return sorted(rows, key=lambda row: (row[1] / row[2], row[0]))


def report(files: Mapping[str, Any]) -> str:
    """A line for each folder and one for all."""
    rows = by_folder(files)
    rows.append(("all", sum(run for _, run, _ in rows), sum(all_ for *_, all_ in rows)))
    return "\n".join(f"{100 * run / max(all_, 1):5.1f} %  {all_:6d} statements  {name}" for name, run, all_ in rows)


if __name__ == "__main__":
    print(report(json.loads(Path(sys.argv[1]).read_text())["files"]))
