"""The page in a browser: a model dropped, its progress, graph, kernels and artifact; what keeps it to itself."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import tilewright as tw
from tests.onnx_models import convolution, perceptron, saved, unknown_operator
from tests.oracles import open_session
from tests.service.page.browser import Browser, browser, missing

if TYPE_CHECKING:
    from tests.service.conftest import Service

_PAGE = Path(tw.__file__).parent / "service" / "page"
_CHECKS = Path(__file__).with_name("checks.js")
#: Compiling shares the machine with other tests.
_COMPILED = 240.0


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the browser's downloads."""
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def page(service: Service, downloads: Path) -> Iterator[Browser]:
    """The page, with a key of its own."""
    if reason := missing():
        pytest.skip(reason)
    with browser(downloads) as found:
        found.open(f"{service.url}/")
        found.wait("return document.getElementById('key-dialog').open")  # a service with keys asks for one
        found.type("#key-field", service.store.add_bearer_key("reader"))
        found.click("button", "Use it")
        found.wait("return document.querySelector('.targets input')")
        yield found


@pytest.fixture(scope="module")
def compiled(page: Browser, service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose job is shown, from the drop to the graph."""
    page.open(f"{service.url}/ui/#/")
    page.wait("return document.getElementById('file')")
    model = saved(convolution(), tmp_path_factory.mktemp("model") / "convolution.onnx")
    page.type("#file", str(model))
    page.wait("return document.querySelector('.progress') || document.querySelector('.tabs')", seconds=60)
    page.wait(
        "return document.querySelectorAll('.tabs').length && document.querySelector('.graph .node')", seconds=_COMPILED
    )
    return model


def test_graph_is_shown_before_and_after(page: Browser, compiled: Path) -> None:
    page.click("button", "Before")
    before = page.wait("return [...document.querySelectorAll('.node .op')].map((e) => e.textContent)")
    page.click("button", "After")
    page.wait("return document.querySelector('.graph').getAttribute('aria-label').includes('as compiled')")
    after = page.wait("return document.querySelectorAll('.node:not(.ends)').length")
    assert any("conv2d" in text for text in before) and 0 < after < len(before)


def test_keys_go_along_edges_and_open_the_kernel(page: Browser, compiled: Path) -> None:
    page.click("tab", "Graph")
    page.click("button", "After")
    page.run("document.querySelector('.graph').focus()")
    for key in ("ArrowDown", "ArrowDown"):
        page.run(
            "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))",
            key,
        )
    assert page.run("return document.querySelector('.node.chosen .op').textContent")
    assert "in" in page.run("return document.getElementById('say').textContent")
    page.run("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))")
    page.wait("return document.getElementById('tab-kernels').getAttribute('aria-selected') === 'true'")


def test_kernels_show_schedule_loops_and_code_that_correspond(page: Browser, compiled: Path) -> None:
    page.click("tab", "Kernels")
    page.wait("return document.querySelectorAll('.pane').length === 2")
    shares = page.run(
        "return [...document.querySelectorAll('.row > .number:not(.minor)')].map((e) => parseFloat(e.textContent))"
    )
    assert sum(shares) == pytest.approx(100, abs=1)
    lit = page.run(
        "const line = document.querySelector('.pane:last-child .line[data-tag]'); "
        "line.dispatchEvent(new PointerEvent('pointerover', {bubbles: true})); "
        "return [...document.querySelectorAll('.pane')].map((pane) => pane.querySelectorAll('.lit').length)"
    )
    assert lit[1] > 0


def test_roofline_and_memory_have_a_mark_for_each_call(page: Browser, compiled: Path) -> None:
    page.click("tab", "Roofline")
    assert page.wait("return document.querySelectorAll('.point').length") > 0
    page.click("tab", "Memory")
    assert page.wait("return document.querySelectorAll('#panel-memory .bar').length") > 0


def test_download_computes_what_the_model_does(page: Browser, compiled: Path, downloads: Path) -> None:
    page.click("button", "Download model.tw")
    end = time.monotonic() + 30
    while not (downloads / "model.tw").exists() and time.monotonic() < end:
        time.sleep(0.1)
    model, session = tw.load(downloads / "model.tw"), open_session(compiled)
    random = np.random.default_rng(0)
    feeds = {spec.name: random.standard_normal(spec.shape).astype(str(spec.dtype)) for spec in model.inputs}
    for ours, theirs in zip(model.run(feeds), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-4, atol=1e-5)


def test_measuring_replaces_predictions(page: Browser, compiled: Path) -> None:
    page.click("button", "Measure")
    page.wait("return document.querySelector('.figures dt')?.textContent === 'measured time'", seconds=_COMPILED)


def test_a_module_runs_in_the_page(page: Browser, service: Service, tmp_path: Path) -> None:
    targets = json.loads(page.run(
        "const ask = new XMLHttpRequest(); ask.open('GET', '/v1/targets', false); "
        "ask.setRequestHeader('Authorization', `Bearer ${sessionStorage.getItem('key')}`); ask.send(); "
        "return ask.responseText"
    ))  # fmt: skip
    (wasm,) = (one for one in targets if one["name"] == "wasm")
    if not wasm["available"]:
        pytest.skip(wasm["reason"])
    model = saved(perceptron(), tmp_path / "perceptron.onnx")
    page.run("localStorage.setItem('targets', '[\"wasm\"]')")
    page.open(f"{service.url}/ui/#/")
    page.call("POST", "/refresh", {})
    page.wait("return document.querySelector('.targets input')")
    page.type("#file", str(model))
    page.wait("return document.getElementById('tab-try')", seconds=_COMPILED)
    page.click("tab", "Try it")
    page.wait("return document.querySelector('.try select')")
    page.run("document.querySelector('.try select').value = 'zero'; localStorage.removeItem('targets')")
    page.click("button", "Run")
    text = page.wait("return document.querySelector('#panel-try .facts')?.innerText")
    (bias,) = open_session(model).run(None, {"x": np.zeros((1, 8), "float32")})
    least, most = map(float, re.findall(r"([\d.]+) to ([\d.]+)", text)[0])
    assert (least, most) == pytest.approx((bias.min(), bias.max()), rel=1e-4)


def test_unsupported_operators_are_listed_with_the_reason(page: Browser, service: Service, tmp_path: Path) -> None:
    page.open(f"{service.url}/ui/#/")
    page.wait("return document.querySelector('.targets input')")
    page.type("#file", str(saved(unknown_operator(), tmp_path / "unknown.onnx")))
    text = page.wait(
        "return document.querySelector('.status.failed') && document.querySelector('main table')?.innerText",
        seconds=_COMPILED,
    )
    assert "converter" in text or "support" in text


def test_jobs_are_listed_and_compared(page: Browser, service: Service, compiled: Path) -> None:
    page.open(f"{service.url}/ui/#/jobs")
    page.wait("return document.querySelectorAll('tbody input:not(:disabled)').length >= 2")
    page.run("for (const box of [...document.querySelectorAll('tbody input:not(:disabled)')].slice(0, 2)) box.click()")
    page.click("link", "Compare")
    columns = page.wait(
        "return document.querySelectorAll('.mark').length >= 2 && document.querySelectorAll('thead th').length"
    )
    assert columns >= 2


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_what_lighthouse_looks_at(page: Browser, service: Service, compiled: Path, width: int, colours: str) -> None:
    media = [{"name": "prefers-color-scheme", "value": colours}]
    page.devtools("Emulation.setEmulatedMedia", features=media)
    page.devtools(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
    )
    found = {}
    page.open(f"{service.url}/ui/#/jobs")
    job = page.wait("return [...document.querySelectorAll('main a[href*=\"#/job/\"]')].at(-1)?.hash")
    for place in ("#/", "#/jobs", job):
        page.open(f"{service.url}/ui/{place}")
        page.call("POST", "/refresh", {})
        page.wait("return document.querySelector('.targets input, tbody tr, .tabs')")
        found[place] = page.run(_CHECKS.read_text())
    page.devtools("Emulation.clearDeviceMetricsOverride")
    page.devtools("Emulation.setEmulatedMedia", features=[])
    assert {place: lines for place, lines in found.items() if lines} == {}


def test_nothing_went_wrong_in_the_page(page: Browser, compiled: Path) -> None:
    entries = page.call("POST", "/se/log", {"type": "browser"})
    assert [one["message"] for one in entries if one["level"] == "SEVERE" and "401" not in one["message"]] == []


def test_the_page_keeps_everything_else_out(service: Service) -> None:
    with urllib.request.urlopen(f"{service.url}/ui/") as answer:
        assert answer.url.endswith("/ui/") and "default-src 'self'" in answer.headers["Content-Security-Policy"]
    for path in ("site.py", "__init__.py", "../app.py", "%2e%2e/app.py", "__pycache__/"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{service.url}/ui/{path}")
        assert refused.value.code == 404


def test_files_of_the_page_name_no_other_site() -> None:
    files = [path for path in _PAGE.iterdir() if path.suffix in (".html", ".css", ".js", ".svg")]
    known = ("http://www.w3.org/2000/svg", "https://onnx.ai")
    for path in files:
        found = [url for url in re.findall(r"https?://[^\s\"')]+", path.read_text()) if not url.startswith(known)]
        assert not found, f"{path.name}: {found}"
    assert sum(path.stat().st_size for path in files) < 150_000
