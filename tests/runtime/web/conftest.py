"""Fixtures that the tests of the web share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tilewright as tw
from tilewright.errors import EnvironmentError_
from tilewright.runtime.web.gpu_model import WebGpuModel
from tilewright.runtime.web.process import program_of


@pytest.fixture
def opened() -> Iterator[Any]:
    """A function that has a model run in Chromium; the test is skipped where there is none."""
    try:
        program_of("chromium")
    except EnvironmentError_ as error:
        pytest.skip(str(error))
    made: list[WebGpuModel] = []

    def open_(model: Any, **options: Any) -> WebGpuModel:
        made.append(WebGpuModel.of(tw.compile(model, target="webgpu", cache=False, **options)))
        made[-1].use("chromium")
        return made[-1]

    yield open_
    for one in made:
        one.close()
