"""The docs site: its navigation has every page, its charts are those of the tables, its links lead into the site."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from scripts import charts

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
NAVIGATION = re.findall(r"^\s+- (?:.+: )?([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
REFERENCE = [
    name
    for page in sorted((DOCS / "reference").glob("*.md"))
    for name in re.findall(r"^::: (.+)$", page.read_text(), re.M)
]
TABLE = "<!-- chart: ratio | 1 thread | 2 threads -->\n| m | ms | ratio | ratio |\n|---|---|---|---|\n"


def test_the_navigation_has_every_page_once() -> None:
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    assert sorted(NAVIGATION) == sorted([*pages, "contributing.md", "changelog.md"])


@pytest.mark.parametrize("name", REFERENCE)
def test_the_reference_names_what_there_is(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute)


def test_a_chart_has_the_figures_of_its_table() -> None:
    mark = charts.MARK.search(TABLE + "| a: large | 1 | 1.25 | 2.5 |\n| b | 1 | – | 2 |\n")
    assert mark is not None
    chart = charts.chart_of(mark)
    assert chart == charts.Chart(["1 thread", "2 threads"], [("a", [1.25, 2.5])])
    assert "width:50.0%" in charts.html(chart) and "width:100.0%" in charts.html(chart)


def test_a_table_stays_below_its_chart() -> None:
    row = "| a | 1 | 1.25 | 2.5 |"
    assert f"    {row}" in charts.with_charts(f"# Page\n\n{TABLE}{row}\n\nText.\n")


def test_a_chart_with_a_name_too_few_is_refused() -> None:
    with pytest.raises(ValueError, match="2 columns 'ratio', but 1 names"):
        charts.with_charts(TABLE.replace(" | 2 threads", "") + "| a | 1 | 1.25 | 2.5 |\n")


def test_every_chart_of_the_pages_has_rows() -> None:
    found = [(page.name, mark) for page in DOCS.glob("*.md") for mark in charts.MARK.finditer(page.read_text())]
    assert len(found) == sum(page.read_text().count("<!-- chart:") for page in DOCS.glob("*.md")) > 0
    assert not [name for name, mark in found if not charts.chart_of(mark).rows]


def test_the_picture_of_the_readme_is_current() -> None:
    assert charts.PICTURE.read_text() == charts.picture(), "run python scripts/charts.py"


def test_links_out_of_docs_lead_to_pages_of_the_site() -> None:
    pytest.importorskip("mkdocs", reason="the docs site needs mkdocs (the extra docs)")
    from scripts import site_hooks

    assert site_hooks.site_links("[a](../examples/run_model.py)") == "[a](examples/run_model.md)"
    assert site_hooks.site_links("[a](../CONTRIBUTING.md#how)") == "[a](contributing.md#how)"
