"""Calibration by compiled code against the interpreter."""

import numpy as np
import pytest

from tests.quantize.models import perceptron, rows
from tilewright.errors import InputError
from tilewright.frontend.formats.import_model import import_model
from tilewright.quantize.calibrate import Calibration, run_compiled
from tilewright.quantize.layers import layers, prepared
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Function, Tuple


@pytest.fixture(scope="module")
def mod():
    """The perceptron as layers are looked for in."""
    return prepared(import_model(perceptron(), None), fold_scales=False)


def samples(count=6):
    return [{"x": row[None]} for row in rows(count)["x"]]


@pytest.mark.parametrize("extremes_only", [True, False])
def test_extremes_are_those_of_the_interpreter(mod, extremes_only):
    found = layers(mod["main"])
    calibration = Calibration(mod, found)
    calibration.run(samples(), extremes_only, threads=1)
    probe = Function(mod["main"].params, Tuple([layer.operands[0] for layer in found]))
    seen = [interpret(probe, sample) for sample in samples()]
    assert found
    for index, layer in enumerate(found):
        values = np.concatenate([one[index].ravel() for one in seen])
        histogram = calibration.histograms[layer.tensors[0]]
        assert histogram.least == pytest.approx(values.min(), abs=1e-5)
        assert histogram.largest == pytest.approx(values.max(), rel=1e-5)
        assert extremes_only or histogram.counts.sum() == values.size


def test_a_function_runs_compiled_on_a_data_set(mod):
    for ours, sample in zip(run_compiled(mod["main"], samples(3)), samples(3), strict=True):
        np.testing.assert_allclose(ours[0], interpret(mod, sample)[0], rtol=1e-5, atol=1e-5)


def test_a_float_model_that_overflows_is_refused(mod):
    calibration = Calibration(mod, layers(mod["main"]))
    with pytest.raises(InputError, match=r"computes NaN or infinity in outer:input of calibration sample 1"):
        calibration.run([*samples(1), {"x": np.full((1, 8), 3e38, np.float32)}], extremes_only=True, threads=1)
