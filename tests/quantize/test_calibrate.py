"""Calibration by compiled code against the interpreter."""

import numpy as np
import pytest

from tests.quantize.models import add, images, network, perceptron, rows
from tilewright import relay
from tilewright.errors import InputError
from tilewright.frontend.formats.import_model import import_model
from tilewright.quantize.batch import of_batch
from tilewright.quantize.calibrate import Calibration, run_compiled
from tilewright.quantize.layers import layers, prepared
from tilewright.quantize.ranges import Histogram
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Function, GlobalVar, Tuple
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule


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


@pytest.mark.parametrize("count", [3, 6, 8])
def test_histograms_are_those_of_numpy_one_or_several_samples_at_a_time(count):
    """Of 3 samples each by itself, of 6 and 8 all at once; later ones are larger, so that bins merge."""
    wide = prepared(import_model(network(), None), fold_scales=False)
    found = layers(wide["main"])
    scale = np.geomspace(0.1, 30.0, count).astype(np.float32)
    given = [{"x": image[None] * size} for image, size in zip(images(count)["x"], scale, strict=True)]
    calibration = Calibration(wide, found)
    calibration.run(given, extremes_only=False, threads=1)
    probe = wide.with_function("main", Function(wide["main"].params, Tuple(list(calibration.tensors.values()))))
    wanted = {name: Histogram() for name in calibration.tensors}
    for sample in given:
        for one, value in zip(wanted.values(), interpret(probe, sample), strict=True):
            add(one, value)
    for name, one in calibration.histograms.items():
        assert (one.limit, one.counts.sum()) == (wanted[name].limit, wanted[name].counts.sum())
        # rounding moves some values into the next bin
        assert np.abs(np.cumsum(one.counts) - np.cumsum(wanted[name].counts)).max() <= 0.01 * one.counts.sum()


def test_samples_side_by_side_name_the_one_that_overflows(mod):
    bad = [*samples(3), {"x": np.full((1, 8), 3e38, np.float32)}]
    with pytest.raises(InputError, match=r"computes NaN or infinity in outer:input of calibration sample 3"):
        Calibration(mod, layers(mod["main"])).run(bad, extremes_only=False, threads=1)


def test_a_model_that_mixes_samples_takes_them_one_by_one():
    x = relay.var("x", shape=(1, 8))
    centred = relay.subtract(x, relay.mean(x, axis=0, keepdims=True))
    weight = relay.const(np.ones((3, 8), np.float32))
    func = relay.Function([x], relay.nn.dense(relay.add(centred, relay.const(np.float32(1))), weight))
    mixed = infer_type(IRModule({GlobalVar("main"): func}))
    assert of_batch(mixed["main"], [mixed["main"].body], 4) is not None
    calibration = Calibration(mixed, layers(mixed["main"]))
    calibration.run(samples(8), extremes_only=True, threads=1)
    (one,) = calibration.histograms.values()
    assert (one.least, one.largest) == (1.0, 1.0)
