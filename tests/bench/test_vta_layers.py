"""The benchmark of single layers of the accelerator, and the roofline that is drawn of them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tilewright.vta import Config


def test_a_layer_is_measured_and_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "bench" / "vta")
    for name in ("layers", "roofline"):  # others of these names stand in `bench`: as before when this test ends
        monkeypatch.setitem(sys.modules, name, sys)
        del sys.modules[name]
    layers, roofline = importlib.import_module("layers"), importlib.import_module("roofline")
    rows = layers.rows_of(Config(), ["C11"], ["cycle"])
    assert rows[0]["gemm"] == 25088 < rows[0]["2"]["cycle"] < rows[0]["1"]["cycle"]
    assert layers.mean_use(rows, 2, "cycle") > 0.88
    figure = ElementTree.fromstring(roofline.drawn(rows, "cycle", Config(), mhz=100))
    titles = [title.text for title in figure.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 2 and f"{rows[0]['2']['cycle']} cycles" in str(titles[1])
