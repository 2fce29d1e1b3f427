"""Models in Node and in headless Chromium: the outputs of wasmtime, on one thread and on two, times, failures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.onnx_models import convolution, perceptron
from tilewright.errors import EnvironmentError_, InputError
from tilewright.runtime.web.model import WebModel
from tilewright.runtime.web.process import program_of

pytest.importorskip("wasmtime", reason="needs the package wasmtime")


def opened(model: Any, engine: str, threads: int = 1, target: str = "wasm") -> WebModel:
    """A model in an engine; skips where there is none."""
    try:
        program_of(engine)
    except EnvironmentError_ as error:
        pytest.skip(str(error))
    made = tw.compile(model, target=target, cache=False)
    assert isinstance(made, WebModel)
    made.use(engine, threads)
    return made


@pytest.mark.parametrize("engine", ["node", "chromium"])
def test_outputs_are_those_of_wasmtime_with_any_threads(engine: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 12, 12)).astype("float32")
    one = opened(convolution(), engine)
    found = one(x)
    times, rows = one.time({"image": x}, repeat=3), one.profile({"image": x})
    assert len(times) == 3 and len(rows) == len(one.manifest.kernels) and all(row.seconds > 0 for row in rows)
    assert "1 thread" in one.note and ("Node" in one.note or "Chromium" in one.note)
    one.use(engine, threads=2)
    assert "2 threads" in one.note
    np.testing.assert_array_equal(one(x), found)
    one.use("wasmtime")
    np.testing.assert_allclose(one(x), found, rtol=1e-6)
    one.close()


def test_a_module_without_vectors_runs_on_one_thread() -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 12, 12)).astype("float32")
    model = opened(convolution(), "node", threads=2, target="wasm -mattr=-simd128")
    assert model.threads == 1 and "no vectors, 1 thread" in model.note
    np.testing.assert_allclose(model(x), tw.compile(convolution(), cache=False)(x), rtol=1e-5, atol=1e-6)
    model.close()


def test_symbolic_sizes_and_messages_of_an_engine() -> None:
    model = opened(perceptron("N"), "node")
    for rows in (3, 40):
        x = np.random.default_rng(rows).standard_normal((rows, 8)).astype("float32")
        np.testing.assert_allclose(model(x), tw.compile(perceptron("N"), cache=False)(x), rtol=1e-5)
    with pytest.raises(InputError, match="is no engine of WebAssembly"):
        model.use("deno")
    model.use("node", threads=2)
    with pytest.raises(InputError, match="leave out --threads"):
        model.profile({"x": x})
    model.close()


def test_no_program_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EnvironmentError_, match="no node on the PATH"):
        program_of("node")
