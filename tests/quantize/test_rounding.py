"""Adaptive rounding: against exhaustive search, windows against convolutions, kept in recipes and in ONNX files."""

import itertools

import numpy as np
import pytest

import tilewright as tw
from tests.quantize.models import SAMPLES, images, network, perceptron, rows
from tilewright.errors import InputError
from tilewright.frontend.formats.import_model import import_model
from tilewright.quantize import read_recipe
from tilewright.quantize.layers import layers, prepared
from tilewright.quantize.ranges import Codes, as_floats, weight_codes
from tilewright.quantize.recipe import Choice
from tilewright.quantize.rounding import Moments, adapted, moments


def bytes_that_go_together(count=200):
    """Rows of whole numbers from 0 to 255, so that codes are exact: what errs is the rounding of weights."""
    rng = np.random.default_rng(5)
    mixed = rng.standard_normal((count, 1)) @ rng.uniform(0.5, 1, (1, 8)) + 0.1 * rng.standard_normal((count, 8))
    whole = np.rint(np.clip(mixed * 40 + 120, 0, 254))
    whole[:, 0] = 255
    return {"x": whole.astype(np.float32)}


def test_codes_err_no_more_than_the_best_of_all_roundings_by_half():
    rng = np.random.default_rng(0)
    data = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 5)) + 0.05 * rng.standard_normal((50, 5)) + 1.0
    weight, scales = rng.standard_normal((4, 5)).astype(np.float32), np.full(4, 0.2, np.float32)
    known = Moments(data.mean(axis=0)[None], np.cov(data.T, bias=True)[None].astype(np.float32))
    codes, lost = adapted(weight, scales, known)

    def error(row, own):
        left = (data @ (weight[row] - own * 0.2)) - (data.mean(axis=0) @ (weight[row] - own * 0.2))
        return float(np.sum(left**2))

    for row in range(4):
        low = np.floor(weight[row] / 0.2)
        best = min(error(row, low + ends) for ends in itertools.product((0, 1), repeat=5))
        nearest = error(row, weight_codes(weight, scales)[row])
        assert error(row, codes[row]) <= min(1.5 * best, nearest)
        mean = np.mean(data @ (weight[row] - codes[row] * 0.2))
        assert lost[row] == pytest.approx(mean, abs=1e-6)


def test_moments_are_those_of_what_convolutions_and_dense_layers_multiply():
    mod = prepared(import_model(network(), {"x": (1, 3, 8, 8)}), fold_scales=True)
    found = [layer for layer in layers(mod["main"]) if layer.channels]
    codes = Codes(0.05, 100, "uint8")
    choices = {one.name: Choice(one.operator, one.tensors, (codes,), (1.0,) * one.channels) for one in found}
    samples = [{"x": images()["x"][number : number + 1]} for number in range(SAMPLES)]
    known = moments(mod, found, choices, samples)
    assert {name: one.covariance.shape for name, one in known.items()} == {
        found[0].name: (1, 27, 27), "depthwise": (8, 9, 9), "wide": (1, 8, 8), "classes": (1, 16, 16),
    }  # fmt: skip
    # the mean of a convolution over all positions, by its weights
    padded = np.pad(as_floats(images()["x"], codes), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    flat = windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, 27).astype(np.float64)
    assert np.allclose(known[found[0].name].mean[0], flat.mean(axis=0), atol=1e-5)
    assert np.allclose(known[found[0].name].covariance[0], np.cov(flat.T, bias=True), atol=1e-4)


def test_it_lowers_the_error_on_samples_held_out_and_is_kept_in_the_recipe(tmp_path):
    data = bytes_that_go_together()
    nearest = tw.quantize(perceptron(), data, method="minmax", objective=None, threads=1)
    found = tw.quantize(perceptron(), data, method="minmax", rounding="adaptive", objective=None, threads=1)
    assert found.recipe.settings["rounding"] == "adaptive"
    assert all(one.weight_codes and one.correction for one in found.recipe.choices.values())
    assert found.effects["inner"].decibels > nearest.effects["inner"].decibels + 6
    assert found.recipe.losses["relative"] < nearest.recipe.losses["relative"]
    found.recipe.save(tmp_path / "recipe.json")
    assert read_recipe(tmp_path / "recipe.json") == found.recipe
    again = tw.quantize(perceptron(), recipe=tmp_path / "recipe.json").compile(threads=1)
    ours = found.compile(threads=1)
    assert all(np.array_equal(ours(x[None]), again(x[None])) for x in data["x"][:8])


def test_the_onnx_file_has_the_codes():
    data, options = bytes_that_go_together(), {"method": "minmax", "objective": None, "threads": 1}
    found = tw.quantize(perceptron(), data, rounding="adaptive", for_onnx=True, **options)
    assert found.recipe.settings["rounding"] == "adaptive"
    ours, again = found.compile(threads=1), tw.compile(found.to_onnx(), threads=1)
    for x in data["x"][:8]:
        assert np.array_equal(ours(x[None]), again(x[None]))


def test_it_goes_with_equalized_channels():
    found = tw.quantize(network(), images(), rounding="adaptive", equalize=True, correct_bias=True, objective=None)
    assert found.recipe.losses["relative"] < 0.1


def test_codes_of_other_weights_are_refused():
    recipe = tw.quantize(perceptron(), rows(), rounding="adaptive", objective=None, threads=1).recipe
    with pytest.raises(InputError, match="another model"):
        tw.quantize(perceptron(wide=32), recipe=recipe)
    with pytest.raises(InputError, match="rounding is one of nearest, adaptive"):
        tw.quantize(perceptron(), rows(), rounding="up")
