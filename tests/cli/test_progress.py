"""Progress: silence for short work, one rewritten line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

import pytest

from tilewright.cli import progress
from tilewright.support import trace


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the printer sees; tests set its one element."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_short_work_prints_nothing(stream: io.StringIO, clock: list[float]) -> None:
    printer = progress.ProgressPrinter(stream)
    for done in range(1, 11):
        clock[0] += 0.05
        printer("compiling kernels", done, 10)
    printer.close()
    assert stream.getvalue() == ""


def test_plain_lines_are_few_and_say_how_long_it_will_take(clock: list[float]) -> None:
    stream = io.StringIO()
    printer = progress.ProgressPrinter(stream)
    for done in range(31):
        printer("compiling kernels", done, 30)
        clock[0] += 1.0
    printer.close()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "compiling kernels: 5 of 30, about 25 s left"
    assert 2 <= len(lines) <= 4 and "\r" not in stream.getvalue()


def test_a_terminal_line_is_rewritten_and_removed(clock: list[float]) -> None:
    stream = Terminal()
    printer = progress.ProgressPrinter(stream)
    for done in range(5):
        printer("compiling kernels", done, 5)
        clock[0] += 1.0
    printer.close()
    assert stream.getvalue().startswith("\r\033[Kcompiling kernels: 1 of 5, about 4 s left\r\033[K")
    assert stream.getvalue().endswith("\r\033[K") and "\n" not in stream.getvalue()


def test_the_compiler_tells_who_listens() -> None:
    heard: list[tuple[str, int, int]] = []
    trace.progress("before", 1, 1)
    with trace.listen(lambda *event: heard.append(event)):
        trace.progress("stage", 1, 2)
    trace.progress("after", 1, 1)
    assert heard == [("stage", 1, 2)]
