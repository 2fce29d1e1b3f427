"""Progress of a long compilation: one rewritten line with the time left on a terminal, a plain line now and then
elsewhere. Nothing is printed for work that is done within a second or two.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from tilewright.support import trace

#: Seconds of silence before the first line, and between lines, on a terminal and elsewhere.
_TERMINAL, _PLAIN = (1.0, 0.2), (5.0, 10.0)


class ProgressPrinter:
    """Prints `name: done of total` of the stages it hears of, seldom enough not to be noise."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.terminal = stream.isatty()
        self.started = self.stage_started = time.monotonic()
        self.stage = ""
        self.printed = 0.0
        self.shown = False

    def __call__(self, name: str, done: int, total: int) -> None:
        """One more piece of a stage is done."""
        now = time.monotonic()
        if name != self.stage:
            self.stage, self.stage_started = name, now
        first, between = _TERMINAL if self.terminal else _PLAIN
        if now - self.started < first or now - self.printed < between:
            return
        self.printed, self.shown = now, True
        left = (now - self.stage_started) / done * (total - done) if done else 0.0
        text = f"{name}: {done} of {total}" + (f", about {left:.0f} s left" if done and left >= 1 else "")
        self.stream.write(f"\r\033[K{text}" if self.terminal else f"{text}\n")
        self.stream.flush()

    def close(self) -> None:
        """Take the line off the terminal again."""
        if self.terminal and self.shown:
            self.stream.write("\r\033[K")
            self.stream.flush()


@contextmanager
def progress() -> Iterator[None]:
    """Report the progress of the enclosed work on standard error."""
    printer = ProgressPrinter(sys.stderr)
    try:
        with trace.listen(printer):
            yield
    finally:
        printer.close()
