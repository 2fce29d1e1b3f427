"""Compare the words of code and docs with docs/glossary.md, by a record of counts by folder that may only fall.

Two things are counted: docstrings that open with a question word instead of saying what is returned or done, and,
outside of the tests, the words that the glossary's table "Words that are not used" lists. `--accept` writes counts that
have fallen, and moves counts between folders where code moved; it refuses a total that has grown.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "scripts" / "words.tsv"
CODE = ("src", "bench", "examples", "scripts", "tests")
OPENING = re.compile(r"(What|Where|How|Whether|Which)\b")
#: A string that opens so: most files have none and need not be parsed.
QUOTED = re.compile(rf"[\"']\s*{OPENING.pattern}")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: Counts of one folder, by rule: "opening", or a word of the glossary.
Counts = dict[str, int]


@cache
def words(glossary: Path) -> dict[str, tuple[list[str], re.Pattern[str]]]:
    """The listed words, each with its forms and the pattern of its uses; parts of identifiers count."""
    table = glossary.read_text().split("## Words that are not used")[1]
    found = {}
    for listed, unless in re.findall(r"^\| `([^|]+)` \|[^|]*\|([^|]*)\|", table, re.MULTILINE):
        forms = listed.split("`, `")
        allowed = "".join(rf"(?<!{re.escape(before)}[ _])" for before in re.findall(r"`([^`]+) …`", unless))
        pattern = re.compile(rf"(?i){allowed}(?<![a-z])(?:{'|'.join(map(re.escape, forms))})(?![a-z])")
        found[forms[0]] = ([form.lower() for form in forms], pattern)
    return found


def odd_openings(tree: ast.Module) -> Iterator[int]:
    """Lines of the docstrings that open with a question word."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and OPENING.match(ast.get_docstring(node) or ""):
            yield node.body[0].lineno


def count(root: Path) -> dict[str, Counts]:
    """The counts of every folder of code, its tables, docs and the pages beside README.md; of tests the openings."""
    glossary = root / "docs" / "glossary.md"
    files = [path for folder in CODE for path in (root / folder).rglob("*.py")]
    files += [*(root / "src").rglob("names.txt"), *(root / "docs").glob("*.md"), *root.glob("*.md")]
    found: dict[str, Counts] = {}
    for path in sorted(files):
        if path == glossary:
            continue
        text = path.read_text()
        counts = found.setdefault(str(path.relative_to(root).parent), {})
        if path.suffix == ".py":
            odd = odd_openings(ast.parse(text)) if QUOTED.search(text) else ()
            counts["opening"] = counts.get("opening", 0) + len(list(odd))
        if path.is_relative_to(root / "tests"):
            continue
        lowered = text.lower()
        for word, (forms, pattern) in words(glossary).items():
            if any(form in lowered for form in forms):  # most are in no file, and the pattern is slow
                counts[word] = counts.get(word, 0) + len(pattern.findall(text))
    return found


def read(record: Path) -> dict[str, Counts]:
    """The recorded counts; a folder without a row has none left."""
    head, *rows = [line.split("\t") for line in record.read_text().splitlines()]
    return {folder: dict(zip(head[1:], map(int, cells), strict=True)) for folder, *cells in rows}


def write(record: Path, counts: dict[str, Counts], rules: list[str]) -> None:
    """Write the record: a line for each folder that has any."""
    rows = [[folder, *(str(of.get(rule, 0)) for rule in rules)] for folder, of in sorted(counts.items())]
    kept = [row for row in rows if any(cell != "0" for cell in row[1:])]
    record.write_text("".join("\t".join(row) + "\n" for row in [["folder", *rules], *kept]))


def complaints(now: dict[str, Counts], recorded: dict[str, Counts]) -> list[str]:
    """Counts above the record, and folders that have none left but may have some by the record."""
    found = []
    for folder in sorted(now.keys() | recorded.keys()):
        limits, counts = recorded.get(folder, {}), now.get(folder, {})
        for rule in sorted(counts.keys() | limits.keys()):
            uses, limit = counts.get(rule, 0), limits.get(rule, 0)
            what = (
                "docstrings open with What, Where, How, Whether or Which" if rule == "opening" else f'uses of "{rule}"'
            )
            if uses > limit:
                found.append(f"{folder}: {uses} {what}, recorded are {limit}; docs/glossary.md lists what to write")
            elif limit and not uses:
                found.append(f"{folder}: no {what} any more; scripts/check --fix records that")
    return found


def total(counts: dict[str, Counts], rule: str) -> int:
    """The number of breaches of a rule in all folders."""
    return sum(of.get(rule, 0) for of in counts.values())


def main(arguments: list[str]) -> int:
    """Check, or with `--accept` lower the record; 1 where there is something to mend."""
    rules = ["opening", *words(ROOT / "docs" / "glossary.md")]
    now, recorded = count(ROOT), read(RECORD)
    if "--accept" in arguments:
        grown = [rule for rule in rules if total(now, rule) > total(recorded, rule)]
        if not grown:
            write(RECORD, now, rules)
        for rule in grown:
            print(
                f"words: more of {rule!r} than recorded: {total(now, rule)}, not {total(recorded, rule)}",
                file=sys.stderr,
            )
        return 1 if grown else 0
    print("words: " + ", ".join(f"{rule} {total(now, rule)} of {total(recorded, rule)}" for rule in rules))
    found = complaints(now, recorded)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
