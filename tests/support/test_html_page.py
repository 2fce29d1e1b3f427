"""The frame of pages: well formed, readable on narrow screens, long names broken behind separators only."""

from __future__ import annotations

from xml.etree import ElementTree

from tilewright.support import html_page


def test_a_document_is_well_formed_and_fits_narrow_screens() -> None:
    body = html_page.contents(["a <b>", "c"]) + html_page.table(["time"], [[html_page.cell("1 ms", "time")]])
    root = ElementTree.fromstring(html_page.document("a & b", body).removeprefix("<!DOCTYPE html>\n"))
    assert root.findtext("head/title") == "a & b"
    assert root.find("head/meta[@name='viewport']") is not None
    assert [link.get("href") for link in root.iter("a")] == ["#section-0", "#section-1"]
    (cell,) = root.iter("td")
    assert (cell.get("class"), cell.get("data-column")) == ("number", "time")


def test_long_names_break_behind_their_separators() -> None:
    assert (
        html_page.breakable("fused_nn_conv2d_add_nn_relu")
        == "fused_<wbr/>nn_<wbr/>conv2d_<wbr/>add_<wbr/>nn_<wbr/>relu"
    )
    assert html_page.breakable("short_name a&b") == "short_name a&amp;b"


def test_separators_that_a_name_begins_with_stay_with_it() -> None:
    assert html_page.breakable("/features/0/Conv;/features/1") == "/features/<wbr/>0/<wbr/>Conv;<wbr/>/features/<wbr/>1"
    assert html_page.breakable("llvm -l3=100") == 'llvm <span class="option">-l3=100</span>'


def test_names_of_columns_stand_over_their_numbers() -> None:
    cells = [html_page.cell("conv1", "kernel"), html_page.cell("1.5 ms", "time")]
    assert '<th>kernel</th><th class="number">time</th>' in html_page.table(["kernel", "time"], [cells])
    assert "<th>kernel</th>" in html_page.table(["kernel"], [])
