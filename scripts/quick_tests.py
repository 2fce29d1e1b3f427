"""Run within a minute the tests that a change touches: of its files, of its folders, then of the folders above them.

The tests of a file are that of its name, those that import it, and those of its folder with its name in theirs.

    scripts/test --quick [--seconds 48] [--against BASE]

Changed is what differs from BASE, by default the merge base with main, and what git does not know yet. The folders
above are those further up docs/layout.md, the nearest first: only they may import what has changed. Tests that are left
when the time is used up are named at the end.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
#: Test files of the first run of pytest, and how many times as many each run after it takes.
FIRST, GROWTH = 6, 2
#: Seconds in which tests begin; with those that end later it takes a minute at most.
SECONDS = 48.0
#: Seconds by which a test that was begun in time may pass the limit.
GRACE = 10.0

Run = Callable[[Sequence[str], float], int]


def git(*arguments: str) -> list[str]:
    """The lines that git prints."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed_files(against: str | None) -> list[str]:
    """Files that differ from the base, and new ones."""
    base = against or (git("merge-base", "HEAD", "main") or ["HEAD"])[0]
    return sorted({*git("diff", "--name-only", base), *git("ls-files", "--others", "--exclude-standard")})


def layout(page: str) -> list[str]:
    """Folders and files of docs/layout.md, from the top down: each row of the table, or its list instead of it."""
    tops, inner = (
        re.findall(r"^\| `([\w/.]+)` \|", page, re.MULTILINE),
        re.findall(r"^- `([\w/.]+)`: ", page, re.MULTILINE),
    )
    return [one for top in tops for one in ([name for name in inner if name.split("/")[0] == top] or [top])]


def row_of(path: str, rows: Sequence[str]) -> str | None:
    """The row of the layout page that a source or test file belongs to."""
    for prefix in ("src/tilewright/", "tests/"):
        if path.startswith(prefix):
            inner = PurePosixPath(path.removeprefix(prefix))
            own = str(inner).replace("test_", "") if inner.parent == PurePosixPath() else str(inner.parent)
            return own if own in rows else None
    return None


def tests_of(row: str, root: Path) -> list[str]:
    """The test files that mirror a row: of a folder those in it, of a file the one of its name."""
    if row.endswith(".py"):
        path = root / "tests" / f"test_{row}"
        return [str(path.relative_to(root))] if path.exists() else []
    return sorted(str(path.relative_to(root)) for path in (root / "tests" / row).glob("test_*.py"))


def tests_of_file(path: str, root: Path) -> list[str]:
    """The test files of a source file: the one that mirrors it, those that import it, those of its folder by name."""
    inner = PurePosixPath(path.removeprefix("src/tilewright/"))
    if not path.startswith("src/tilewright/") or inner.name == "__init__.py":
        return []
    folder = root / "tests" / inner.parent
    module = rf"tilewright\.{'.'.join(inner.parent.parts)} import (?:\w+, )*{inner.stem}\b"
    imports = re.compile(rf"tilewright\.{re.escape('.'.join(inner.with_suffix('').parts))}\b|{module}")
    found = [one for one in [folder / f"test_{inner.name}"] if one.exists()]
    found += sorted(one for one in (root / "tests").rglob("test_*.py") if imports.search(one.read_text()))
    found += sorted(one for one in folder.glob("test_*.py") if inner.stem in one.stem)
    return [str(one.relative_to(root)) for one in found]


def chosen_tests(changed: Iterable[str], rows: Sequence[str], root: Path) -> list[str]:
    """Test files in the order to run them: changed ones and those of changed files, of changed folders, of those above.

    The nearest folder above comes first.
    """
    changed = list(changed)
    files = [path for path in changed if re.fullmatch(r"tests/.*test_\w+\.py", path) and (root / path).exists()]
    files += [test for path in changed for test in tests_of_file(path, root)]
    touched = {row for path in changed if (row := row_of(path, rows))}
    lowest = max((rows.index(row) for row in touched), default=-1)
    for row in [row for row in rows if row in touched] + [
        row for row in reversed(rows[: lowest + 1]) if row not in touched
    ]:
        files += tests_of(row, root)
    if any(path.endswith(".md") or path == "mkdocs.yml" for path in changed):
        files += ["tests/test_docs.py", "tests/test_pages.py", "tests/test_site.py"]
    return list(dict.fromkeys(files))


def batches(files: Sequence[str]) -> Iterator[Sequence[str]]:
    """The files in runs that grow, so that the nearest tests need not wait for the rest to be collected."""
    start, size = 0, FIRST
    while start < len(files):
        yield files[start : start + size]
        start, size = start + size, size * GROWTH


def run_pytest(files: Sequence[str], seconds: float) -> int:
    """The exit status of pytest over these files; tests that have not begun after `seconds` are skipped."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "--maxschedchunk",
        "1",
        "-p",
        "scripts.deadline",
        *files,
    ]
    environment = os.environ | {"TEST_DEADLINE": str(time.time() + seconds)}
    try:
        return subprocess.run(command, cwd=ROOT, env=environment, timeout=seconds + GRACE).returncode
    except subprocess.TimeoutExpired:
        print(f"stopped {GRACE:.0f} s after the limit, within these files", flush=True)
        return 0


def quick(files: Sequence[str], seconds: float, run: Run) -> tuple[int, list[str]]:
    """The worst exit status, and the files that no time was left for."""
    end, status, done = time.monotonic() + seconds, 0, 0
    for batch in batches(files):
        left = end - time.monotonic()
        if left <= 0:
            break
        code = run(batch, left)
        status = max(status, 0 if code == 5 else code)  # 5: these files hold no tests
        done += len(batch)
    return status, list(files[done:])


def main(arguments: Sequence[str]) -> int:
    """Run, and print what was left out; the exit status is that of the tests that ran."""
    parser = argparse.ArgumentParser(prog="scripts/test --quick", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time to begin tests in (default 48)")
    parser.add_argument("--against", metavar="BASE", help="commit to compare with (default: the merge base with main)")
    options = parser.parse_args(arguments)
    files = chosen_tests(changed_files(options.against), layout((ROOT / "docs" / "layout.md").read_text()), ROOT)
    if not files:
        print("nothing that has tests has changed")
        return 0
    status, left = quick(files, options.seconds, run_pytest)
    print(f"{len(files) - len(left)} of {len(files)} test files were run in {options.seconds:.0f} s")
    if left:
        print("no time was left for:", *sorted({str(PurePosixPath(path).parent) for path in left}), sep="\n  ")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
