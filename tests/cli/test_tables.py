"""Tables: plain lines in pipes and without rich, else as rich draws them."""

from __future__ import annotations

import sys

import pytest

from tilewright.cli.tables import print_table

COLUMNS, ROWS = ("kernel", "time"), [("conv[1]", "2.5 ms"), ("a [bold]b", "10.25 ms")]


def test_plain_lines_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, ROWS, ["one", "two"])
    assert capsys.readouterr().out == "one\ntwo\n"


def test_plain_lines_without_rich(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    print_table(COLUMNS, ROWS, ["one"])
    assert capsys.readouterr().out == "one\n"


def test_a_table_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    print_table(COLUMNS, ROWS, ["one"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["kernel", "time"], ["conv[1]", "2.5", "ms"], ["a", "[bold]b", "10.25", "ms"]]
