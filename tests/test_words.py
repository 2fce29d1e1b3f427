"""The check of words: what it counts, and that its record can only fall."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scripts import words_report

GLOSSARY = words_report.ROOT / "docs" / "glossary.md"


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("the place of a value", 1),
        ("first_place = places[0]", 2),
        ("rewritten in place, a placeholder, take place", 0),
        ("Place it there", 1),
    ],
)
def test_words_count_within_identifiers_but_not_within_words(text: str, uses: int) -> None:
    _, pattern = words_report.words(GLOSSARY)["place"]
    assert len(pattern.findall(text)) == uses


def test_docstrings_that_open_with_a_question_word_are_found() -> None:
    tree = ast.parse('"""What this is."""\ndef f():\n    """Return one."""\nclass C:\n    """Which it is."""\n')
    assert list(words_report.odd_openings(tree)) == [1, 5]


def test_tests_answer_for_their_openings_only(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "glossary.md").write_text(GLOSSARY.read_text())
    for folder in ("bench", "tests"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "it.py").write_text('"""Whether it holds."""\ntold = 1\n')
    counts = words_report.count(tmp_path)
    assert (counts["bench"]["opening"], counts["bench"]["told"]) == (1, 1)
    assert (counts["tests"]["opening"], counts["tests"].get("told", 0)) == (1, 0)


def test_a_count_above_the_record_is_refused() -> None:
    assert not words_report.complaints({"src": {"told": 2}}, {"src": {"told": 3}})
    (line,) = words_report.complaints({"src": {"told": 4}}, {"src": {"told": 3}})
    assert 'src: 4 uses of "told", recorded are 3' in line
    assert words_report.complaints({"new": {"opening": 1}}, {}), "a folder without a row may have none"


def test_a_folder_swept_clean_stays_clean() -> None:
    (line,) = words_report.complaints({"src": {"told": 0}}, {"src": {"told": 3}})
    assert "scripts/check --fix records that" in line


def test_the_record_is_lowered_and_never_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "words.tsv"
    monkeypatch.setattr(words_report, "RECORD", record)
    rules = ["opening", *words_report.words(GLOSSARY)]
    monkeypatch.setattr(words_report, "count", lambda _: {"src/moved": {"told": 2}})
    words_report.write(record, {"src/old": {"told": 3}}, rules)
    assert words_report.main(["--accept"]) == 0
    assert words_report.read(record) == {"src/moved": {rule: 2 if rule == "told" else 0 for rule in rules}}
    words_report.write(record, {"src/old": {"told": 1}}, rules)
    assert words_report.main(["--accept"]) == 1
    assert "more of 'told' than recorded: 2, not 1" in capsys.readouterr().err


def test_the_tree_keeps_its_record() -> None:
    assert not words_report.complaints(words_report.count(words_report.ROOT), words_report.read(words_report.RECORD))
