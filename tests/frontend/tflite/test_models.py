"""Trained models against LiteRT's reference kernels: the quantized ones bit for bit, their state carried on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.tflite.builder import interpreter, random_input
from tilewright.frontend.tflite import from_tflite, initial_states

MODELS = Path(__file__).resolve().parents[3].parent / "shared" / "models" / "real" / "tflite"
if not MODELS.is_dir():
    pytest.skip("../shared/models/real/tflite is absent", allow_module_level=True)


@pytest.mark.parametrize("path", sorted(MODELS.glob("*/*.tflite")), ids=lambda path: path.stem)
def test_a_trained_model_agrees_with_litert(path: Path) -> None:
    kind = interpreter.OpResolverType.BUILTIN_REF
    run = interpreter.Interpreter(str(path), experimental_op_resolver_type=kind)
    run.allocate_tensors()
    module, specs = from_tflite(path)
    executable = tw.compile(module, cache=False)
    states: dict[str, Any] = initial_states(path)
    rng = np.random.default_rng(1)
    for _ in range(3):
        feeds = [random_input(detail, rng, -1, 1) for detail in run.get_input_details()]
        for detail, feed in zip(run.get_input_details(), feeds):
            run.set_tensor(detail["index"], feed)
        run.invoke()
        results = [
            np.asarray(value) for value in executable.run({**dict(zip([s.name for s in specs], feeds)), **states})
        ]
        wanted = [run.get_tensor(detail["index"]) for detail in run.get_output_details()]
        assert len(results) == len(wanted) + len(states)
        for ours, theirs in zip(results, wanted):
            if theirs.dtype.kind == "f":
                np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
            else:
                np.testing.assert_array_equal(ours, theirs)
        states = dict(zip(states, results[len(wanted) :]))


def test_a_path_is_recognized_by_its_contents() -> None:
    path = MODELS / "mlperf_tiny" / "ad01_int8.tflite"
    executable = tw.compile(path, cache=False)
    assert np.asarray(executable(np.zeros((1, 640), np.int8))).shape == (1, 640)
