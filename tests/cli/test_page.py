"""A page of HTML: well formed, and nothing of a model gets out of its text."""

from __future__ import annotations

from xml.etree import ElementTree

from tilewright.cli.page import Bar, Page


def test_what_models_say_stays_text() -> None:
    page = Page("<script>alert(1)</script>")
    page.heading("a & b")
    page.table(["<i>"], [("<b>",), (Bar(0.5),), (Bar(7.0),), ("12 ms",)])
    page.text('"quoted" <p>')
    root = ElementTree.fromstring(page.html().removeprefix("<!DOCTYPE html>\n"))
    assert not list(root.iter("script")) and root.findtext("head/title") == "<script>alert(1)</script>"
    widths = [bar.get("style") for bar in root.iter("div")]
    assert widths == ["width:50.0%", "width:100.0%"]
    assert [cell.get("class") for cell in root.iter("td")] == ["text", "bar", "bar", "number"]


def test_a_table_without_rows_says_so_and_a_chart_has_a_legend() -> None:
    page = Page("t")
    page.table(["a"], [])
    page.chart({"one": [(0.0, 1.0), (1.0, 2.0)], "two": [(0.0, 1.0)]}, "x", "y")
    root = ElementTree.fromstring(page.html().removeprefix("<!DOCTYPE html>\n"))
    assert root.findtext("body/p") == "none" and not list(root.iter("table"))
    assert [entry[0].tail for entry in root.iter("li")] == ["one", "two"]


def test_level_lines_have_a_scale_above_them() -> None:
    page = Page("p")
    page.chart({"one": [(0.0, 2.0), (1.0, 2.0)]}, "x", "y")
    assert ">2</text>" in page.html() and ">2.2</text>" in page.html()
