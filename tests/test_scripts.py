"""The scripts of the checkout: choice of quick tests, coverage by folder, hooks for every part of the check."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from scripts import coverage_report, quick_tests, structure

ROOT = Path(__file__).resolve().parent.parent
ROWS = ["cli", "compile.py", "relay/op", "tir", "errors.py"]


def tree(root: Path, *paths: str) -> Path:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    return root


def test_a_folder_is_tested_first_and_then_those_above_it_nearest_first(tmp_path: Path) -> None:
    tests = ["tests/cli/test_run.py", "tests/test_compile.py", "tests/relay/op/test_nn.py", "tests/tir/test_expr.py"]
    root = tree(tmp_path, *tests)
    assert quick_tests.chosen_tests(["src/tilewright/relay/op/nn.py"], ROWS, root) == [tests[2], tests[1], tests[0]]
    assert quick_tests.chosen_tests(["src/tilewright/compile.py"], ROWS, root) == [tests[1], tests[0]]


def test_the_tests_of_a_changed_file_come_before_those_of_its_folder(tmp_path: Path) -> None:
    root = tree(tmp_path, "tests/tir/test_a.py", "tests/tir/test_loops.py", "tests/cli/test_c.py")
    found = quick_tests.chosen_tests(["src/tilewright/tir/loops.py"], ROWS, root)
    assert found == ["tests/tir/test_loops.py", "tests/tir/test_a.py", "tests/cli/test_c.py"]


def test_tests_that_import_a_changed_file_or_bear_its_name_come_next(tmp_path: Path) -> None:
    root = tree(tmp_path, "tests/tir/test_a.py", "tests/tir/test_many_loops.py", "tests/tir/test_loops.py")
    for name, text in (("c", "from tilewright.tir.loops import x"), ("d", "from tilewright.tir import expr, loops\n")):
        (tree(root, f"tests/cli/test_{name}.py") / f"tests/cli/test_{name}.py").write_text(text)
    tree(root, "tests/cli/test_b.py")
    (root / "tests/cli/test_b.py").write_text("from tilewright.tir import loops_of\nimport tilewright.tir.loopsy")
    found = quick_tests.chosen_tests(["src/tilewright/tir/loops.py"], ROWS, root)
    assert [Path(one).stem.removeprefix("test_") for one in found] == ["loops", "c", "d", "many_loops", "a", "b"]


def test_every_module_belongs_to_a_row_of_the_layout_page() -> None:
    rows = quick_tests.layout((ROOT / "docs" / "layout.md").read_text())
    paths = [path.relative_to(ROOT).as_posix() for path in (ROOT / "src" / "tilewright").rglob("*.py")]
    without = [path for path in paths if quick_tests.row_of(path, rows) is None]
    assert sorted(without) == ["src/tilewright/__init__.py", "src/tilewright/__main__.py"]


def test_changed_tests_come_before_all_others(tmp_path: Path) -> None:
    root = tree(tmp_path, "tests/tir/test_a.py", "tests/tir/test_b.py", "tests/cli/test_c.py")
    found = quick_tests.chosen_tests(["tests/tir/test_b.py", "tests/tir/gone/test_d.py"], ROWS, root)
    assert found == ["tests/tir/test_b.py", "tests/tir/test_a.py", "tests/cli/test_c.py"]


def test_what_no_time_was_left_for_is_returned() -> None:
    ran: list[str] = []

    def run(files: Sequence[str], seconds: float) -> int:
        ran.extend(files)
        time.sleep(seconds)
        return 1

    files = [f"test_{i}.py" for i in range(quick_tests.FIRST + 3)]
    assert quick_tests.quick(files, 0.01, run) == (1, files[quick_tests.FIRST :])
    assert ran == files[: quick_tests.FIRST]


def test_tests_after_the_deadline_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_it():\n    assert False\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "scripts.deadline", "-p", "no:cacheprovider", "test_one.py"]
    for limit, summary in ((time.time() - 1, "1 skipped"), (time.time() + 600, "1 failed")):
        environment = os.environ | {"PYTHONPATH": str(ROOT), "TEST_DEADLINE": str(limit)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert summary in done.stdout, done.stdout + done.stderr


def test_coverage_is_added_up_by_folder() -> None:
    def of(run: int, statements: int) -> dict[str, dict[str, int]]:
        return {"summary": {"covered_lines": run, "num_statements": statements}}

    files = {
        "src/tilewright/tir/expr.py": of(9, 10),
        "src/tilewright/tir/op.py": of(6, 10),
        "src/tilewright/errors.py": of(1, 2),
        "src/tilewright/te/__init__.py": of(0, 0),
    }
    assert coverage_report.by_folder(files) == [("errors.py", 1, 2), ("tir", 15, 20)]
    assert coverage_report.report(files).splitlines()[-1] == " 72.7 %      22 statements  all"


def test_the_hooks_before_a_commit_are_the_parts_of_the_check() -> None:
    check = (ROOT / "scripts" / "check").read_text()
    (parts,) = re.findall(r"\|\| set -- (.+)", check)
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"entry: scripts/check (\w+)", hooks) == parts.split()
    assert hooks.count("- repo:") == hooks.count("- repo: local") == 1, "hooks of other repositories need the network"


def test_the_check_refuses_a_part_that_it_does_not_have() -> None:
    assert re.findall(r"^    (\w+)\) \$bin", (ROOT / "scripts" / "check").read_text(), re.MULTILINE) == (
        ["format", "lint", "types", "layout", "words", "sizes"]
    )


def test_the_drawing_of_the_structure_counts_imports_that_point_upwards(tmp_path: Path) -> None:
    root = tree(tmp_path, "top.py", "low/__init__.py", "low/part.py", "base.py")
    (root / "top.py").write_text("from tilewright.low.part import f\nimport tilewright.base")
    (root / "low" / "part.py").write_text("def f():\n    import tilewright\n    return tilewright.top")
    graph = structure.graph_of(root)
    assert graph == {"top": {"low", "base"}, "low": {"top"}, "base": set()}
    assert len(structure.upwards(graph, structure.ordered(graph))) == 1
    assert "now: 1 of 3 point upwards" in structure.picture({"now": root})


def test_no_top_level_folder_imports_upwards() -> None:
    graph = structure.graph_of(ROOT / "src" / "tilewright")
    assert not structure.upwards(graph, structure.ordered(graph))
