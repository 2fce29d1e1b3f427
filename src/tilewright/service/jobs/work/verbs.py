"""Verbs of the command line as a job's work: run in its process, with their words in its log."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from typing import Any, TextIO

from tilewright.errors import InternalError, UserError

#: Exit statuses: of a comparison that failed, of a user's error.
DIFFERS, _AT_FAULT = 1, 2


class _Heard:
    """A stream that keeps the last of what is written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self.last = stream, ""

    def write(self, text: str) -> int:
        self.last = (self.last + text)[-2000:]
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def run_verb(words: Sequence[str], given: dict[str, Any] | None = None) -> int:
    """Run `tilewright WORDS…`, with the options `given` by name; the status, 0 or `DIFFERS`.

    Raises `UserError` with the verb's message where it fails.
    """
    options = [word for name, value in (given or {}).items() for word in _option(name, value)]
    print("tilewright", *words, *options, flush=True)
    arguments, heard = sys.argv, _Heard(sys.stderr)
    sys.argv = ["tilewright", *words, *options]
    try:
        with redirect_stderr(heard):  # type: ignore[type-var]
            runpy.run_module("tilewright", run_name="__main__")
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    finally:
        sys.argv = arguments
    if status in (0, DIFFERS):
        return status
    message = heard.last.strip().rpartition("error: ")[2] or f"the verb {words[0]} ended with status {status}"
    raise (UserError if status == _AT_FAULT else InternalError)(message)


def _option(name: str, value: Any) -> list[str]:
    """An option in words; inputs' shapes as the command line has them."""
    if name == "shapes":
        return ["--input-shapes", ",".join(f"{one}:[{','.join(map(str, sizes))}]" for one, sizes in value.items())]
    return [f"--{name.replace('_', '-')}={value}"]
