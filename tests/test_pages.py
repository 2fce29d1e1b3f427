"""Lists on the pages and in docstrings are those of the code: each here is compared with where it comes from."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

from tilewright import errors, te
from tilewright.driver.model.build import EXECUTORS
from tilewright.frontend.onnx import convert
from tilewright.frontend.onnx.registry import MICROSOFT, converts
from tilewright.te.schedule import Schedule
from tilewright.te.stage import Stage

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "tilewright"
README = (ROOT / "README.md").read_text()


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def rows(text: str, head: str) -> list[list[str]]:
    """The cells of the table whose head begins with `head`."""
    table = text[text.index(head) :].split("\n\n")[0]
    assert table.count("\n") >= 2, f"the table {head} is empty"
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def names(cell: str) -> list[str]:
    return re.findall(r"`([\w.]+)`", cell)


def test_the_readme_counts_operators_as_the_page_of_operators_does() -> None:
    (counted,) = re.findall(r"^(\d+) operators, beside", page("operators.md"), re.MULTILINE)
    assert f"patterns; {counted} operators;" in README
    assert f"patterns; {counted} operators;" in page("features.md")


def test_the_operators_of_com_microsoft_are_listed() -> None:
    assert convert.convert_model is not None  # importing it registers all converters
    known = {name for domain, name, _ in converts.entries() if domain == MICROSOFT}
    (count, listed) = re.findall(r"`com.microsoft`, (\d+): (.*?)\.(?:\n|\s)", page("onnx.md"), re.DOTALL)[0]
    assert set(names(listed)) == known and int(count) == len(known)
    assert f"and {count} of com.microsoft" in README and f"and {count} of com.microsoft" in page("features.md")


def primitives(cls: type) -> set[str]:
    """The methods that `te.step.step` records."""
    return {name for name, member in inspect.getmembers(cls, inspect.isfunction) if hasattr(member, "__wrapped__")}


def test_every_schedule_primitive_is_listed() -> None:
    table = rows(page("te.md"), "| on a stage |")
    of_schedule = {name for label, cell in table for name in names(cell) if "schedule" in label}
    of_stage = {name for label, cell in table for name in names(cell) if "schedule" not in label}
    assert of_stage - {"factor", "nparts"} == primitives(Stage)
    assert of_schedule - {"normalize"} == primitives(Schedule)
    assert callable(Schedule.normalize), "which changes no schedule, so it is not recorded"


def test_every_kind_of_operation_is_listed() -> None:
    for cell, _ in rows(page("te.md"), "| function | makes |"):
        found = te
        for part in re.findall(r"`te\.([\w.]+)", cell)[0].split("."):
            found = getattr(found, part)
        assert callable(found), cell


def test_the_executors_are_listed() -> None:
    table = rows(page("executors.md"), "| executor | runs | class |")
    assert {name for name, _, _ in table} | {"auto"} == set(EXECUTORS)
    for _, _, cell in table:
        module, _, name = names(cell)[0].rpartition(".")
        assert inspect.isclass(getattr(importlib.import_module(f"tilewright.{module}"), name))


def test_files_named_in_tables_are_there_and_hold_what_is_said() -> None:
    for head, folder, name in (
        ("| file of `tir/`", "tir", "ir.md"),
        ("| file | what it holds", "codegen/llvm", "codegen.md"),
    ):
        for file, what in rows(page(name), head):
            for one in re.findall(r"`([\w/]+\.py)`", file):
                assert (SOURCE / folder / one).is_file(), f"docs/{name} names {one}"
            if folder == "tir":
                text = (SOURCE / folder / file.strip("`")).read_text()
                assert all(re.search(rf"\b{one}\b", text) for one in re.findall(r"`(\w+)[`(]", what)), what


def test_the_tree_of_errors_is_that_of_the_classes() -> None:
    tree = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")
    classes = {name for name, one in inspect.getmembers(errors, inspect.isclass) if one.__module__ == errors.__name__}
    assert set(tree) | {"TilewrightError"} == classes
