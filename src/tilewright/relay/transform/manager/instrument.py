"""Instruments of passes: called before and after each pass, and able to skip one.

with PassContext(instruments=[timing := PassTiming()]):
    optimize(mod, target)
print(timing.render())
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.manager.pass_info import PassInfo


class PassInstrument:
    """Base of instruments: override what is of interest."""

    def enter_pass_ctx(self) -> None:
        """The context is entered."""

    def exit_pass_ctx(self) -> None:
        """The context is left."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """False to skip the pass. Not called for passes that the context has switched off already."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """The pass is about to run on `mod`."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """The pass made `mod`."""


class PassTiming(PassInstrument):
    """The seconds each pass took; passes inside a `Sequential` are indented below it."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, str, float]] = []
        self._open: list[tuple[int, float]] = []

    def enter_pass_ctx(self) -> None:
        """Forget what an earlier use of the context measured."""
        self.rows.clear()
        self._open.clear()

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Take a row for the pass and start its clock."""
        self.rows.append((len(self._open), info.name, 0.0))
        self._open.append((len(self.rows) - 1, time.perf_counter()))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Stop the clock of the pass."""
        row, start = self._open.pop()
        depth, name, _ = self.rows[row]
        self.rows[row] = (depth, name, time.perf_counter() - start)

    def render(self) -> str:
        """A line for each pass that ran: its name, indented, and milliseconds."""
        return "\n".join(f"{'  ' * depth + name:<40} {seconds * 1e3:9.3f} ms" for depth, name, seconds in self.rows)


class PrintPasses(PassInstrument):
    """Prints the module before or after the passes whose names match `pattern` (a regular expression; all)."""

    def __init__(
        self, before: bool = False, after: bool = True, pattern: str = ".*", stream: TextIO | None = None
    ) -> None:
        self.before = before
        self.after = after
        self.pattern = re.compile(pattern)
        self.stream = stream

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print what the pass gets."""
        self._show(self.before, "before", mod, info)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print what the pass made."""
        self._show(self.after, "after", mod, info)

    def _show(self, wanted: bool, when: str, mod: IRModule, info: PassInfo) -> None:
        if wanted and self.pattern.fullmatch(info.name):
            print(f"# {when} {info.name}\n{mod!r}", file=self.stream or sys.stdout)


class DumpPasses(PassInstrument):
    """Writes the module after each pass to `directory` as `007_fold_constant.txt`, numbered in the order they ran."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self.count = 0

    def enter_pass_ctx(self) -> None:
        """Make the directory."""
        self.directory.mkdir(parents=True, exist_ok=True)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Write what the pass made."""
        (self.directory / f"{self.count:03d}_{info.name}.txt").write_text(repr(mod))
        self.count += 1


def pass_instrument(cls: type) -> Callable[..., PassInstrument]:
    """A class with some of the methods of `PassInstrument`, which need not derive from it, as an instrument."""
    return type(cls.__name__, (cls, PassInstrument), {"__doc__": cls.__doc__})
