"""`tilewright tune`: records, report and summary, and compiling with what was found."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.onnx_models import convolution, saved
from tilewright.cli import tune_view
from tilewright.cli.main import cli, guarded


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    return result.exit_code, result.output


def test_what_is_found_is_told_kept_and_used(tmp_path: Path) -> None:
    model = str(saved(convolution(), tmp_path / "model.onnx"))
    records, page, figures = (str(tmp_path / name) for name in ("r.jsonl", "page.html", "figures.json"))
    status, output = run(
        *("tune", model, "--trials", "3", "--explorer", "grid", "--records", records),
        *("--report", page, "--json", figures),
    )
    assert status == 0 and "tasks for llvm" in output and "trials in" in output and f"--records {records}" in output
    html = Path(page).read_text()
    assert "<svg" in html and "Speed-up against trials" in html and "Ranking by the cost models" in html
    outcome = json.loads(Path(figures).read_text())
    assert outcome["trials"] >= 3 and outcome["tuned_ms"] <= outcome["default_ms"]
    status, output = run("compile", model, "-o", str(tmp_path / "m.tw"), "--records", records)
    assert status == 0 and "compiled in" in output


def test_records_that_are_not_there_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(saved(convolution(), tmp_path / "model.onnx"))
    arguments = ["compile", model, "-o", str(tmp_path / "m.tw"), "--records", str(tmp_path / "no.jsonl")]
    assert guarded(lambda: cli.main(arguments, standalone_mode=False)) == 2
    assert "there is no such file of records" in capsys.readouterr().err


def test_an_unknown_explorer_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(saved(convolution(), tmp_path / "model.onnx"))
    arguments = ["tune", model, "--trials", "1", "--explorer", "bayes", "--records", str(tmp_path / "r.jsonl")]
    assert guarded(lambda: cli.main(arguments, standalone_mode=False)) == 2
    assert "there is no explorer 'bayes'" in capsys.readouterr().err


def test_the_summary_stands_below_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines that are written while rich redraws the table are overwritten by it."""
    pytest.importorskip("rich", reason="tables on a terminal are drawn by the package rich")
    monkeypatch.setattr(tune_view, "row_of", lambda _tuner: ("dense_3", *[""] * 7))
    monkeypatch.setattr(tune_view, "summary", lambda _result, _records: ["faster: by much"])
    task: Any = object()
    with tune_view.LiveView("m.onnx", "r.jsonl") as view:
        view.begin([task])
        view.end(task)
    assert re.search("dense_3.*faster: by much", capsys.readouterr().out, re.DOTALL)


def test_on_a_board_instructions_are_counted(model: Path, refused: Callable[..., str]) -> None:
    assert "--minutes is not for --board" in refused("tune", model, "--board", "virt", "--minutes", "1")
    assert "there is no board 'vird'" in refused("tune", model, "--board", "vird")
