"""Tables: plain lines in pipes and without rich, else as rich draws them."""

from __future__ import annotations

import re
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


def on_terminal(width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of a wide table of two kernels on a terminal of so many characters."""
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for name, value in {"NO_COLOR": "1", "TERM": "xterm", "COLUMNS": str(width)}.items():
        monkeypatch.setenv(name, value)
    rows = [
        ("1196.250 ms", "12.5 %", "118.2", "fused_nn_conv2d_add_nn_relu", "conv1"),
        ("0.031 ms", "0.1 %", "3.0", "fused_nn_dense", "fc"),
    ]
    print_table(("time", "of all", "GFLOP/s", "kernel", "node"), rows, [], ("GFLOP/s", "of all"))
    return re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out).splitlines()


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (80, ["time", "of all", "GFLOP/s", "kernel", "node"]),
        (56, ["time", "of all", "kernel", "node"]),
        (46, ["time", "kernel", "node"]),
        (20, ["time", "kernel", "node"]),
    ],
)
def test_a_narrow_terminal_loses_columns_and_never_names_or_digits(
    width: int, columns: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heading, first, second = on_terminal(width, capsys, monkeypatch)
    assert re.split(r" {2,}| (?!all)", heading.strip()) == columns
    assert "1196.250 ms" in first and "fused_nn_conv2d_add_nn_relu" in first and "conv1" in first
    assert "0.031 ms" in second and "fused_nn_dense" in second and second.rstrip().endswith("fc")
    assert ("118.2" in first) == ("GFLOP/s" in columns) and ("12.5 %" in first) == ("of all" in columns)
