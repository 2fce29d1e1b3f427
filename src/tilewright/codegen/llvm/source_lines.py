"""Assembly with the lines that it was made of between its instructions, in place of the assembler's directives."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterator

_FILE = re.compile(r'\s*\.file\s+(\d+)\s+(?:"((?:[^"\\]|\\.)*)"\s+)?"((?:[^"\\]|\\.)*)"')
_LOCATION = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_FOR_DEBUGGERS = re.compile(r"\s*\.(cfi_|file\b|ident\b)|\.L(tmp|func_begin|func_end)\d+:")
_SECTION = re.compile(r"\s*\.(section|text)\b")


def with_source_lines(assembly: str, comment: str = "#") -> str:
    """`assembly` of code with debug info: each `.loc` as a comment with the file, the line and its text.

    What only debuggers read is left out.
    """
    return "\n".join(_lines(assembly, comment)) + "\n"


def _lines(assembly: str, comment: str) -> Iterator[str]:
    files: dict[str, str] = {}
    shown, kept = "", True
    for line in assembly.splitlines():
        if _SECTION.match(line):
            kept = ".debug" not in line
        found = _FILE.match(line)
        if found:
            number, directory, name = found.groups()
            files[number] = os.path.join(directory or "", name)
            continue
        position = _LOCATION.match(line)
        if position and position[2] != "0":
            line = _source_line(files.get(position[1], "?"), int(position[2]))
            if line != shown:
                yield f"{comment} {line}"
            shown = line
        elif kept and not position and not _FOR_DEBUGGERS.match(line):
            yield line


def _source_line(file: str, line: int) -> str:
    text = linecache.getline(file, line).strip()
    return f"{os.path.basename(file)}:{line}" + (f": {text}" if text else "")
