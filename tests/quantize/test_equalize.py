"""Factors for channels: exact in floats, found where they help, kept in recipes and in ONNX files."""

import dataclasses
import functools

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.onnx_models import make_model
from tilewright.errors import InputError
from tilewright.frontend.formats.import_model import import_model
from tilewright.quantize.equalize import equalize, sites
from tilewright.quantize.layers import layers, prepared
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.visitor import post_order

KIND = TensorProto.FLOAT
RANGES = np.exp2(np.random.default_rng(4).integers(-5, 6, 16)).astype(np.float32)


def normal(rng, *shape):
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def separable():
    """1x1, depthwise and 1x1 convolutions with clipped channels of very different ranges: x to y [1, 4, 6, 6]."""
    rng = np.random.default_rng(0)
    row = RANGES.reshape(-1, 1, 1, 1)
    weights = {
        "w1": normal(rng, 16, 4, 1, 1) * row, "b1": normal(rng, 16) * RANGES, "w2": normal(rng, 16, 1, 3, 3) / row,
        "b2": normal(rng, 16), "w3": normal(rng, 4, 16, 1, 1), "least": np.float32(0), "most": np.float32(6),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], name="wide"),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu"),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], name="depthwise", pads=[1] * 4, group=16),
        helper.make_node("Clip", ["c2", "least", "most"], ["r2"], name="clip"),
        helper.make_node("Conv", ["r2", "w3"], ["y"], name="narrow"),
    ]
    return make_model(nodes, {"x": (KIND, (1, 4, 6, 6))}, {"y": (KIND, (1, 4, 6, 6))}, weights)


def transformer():
    """A layer normalization with outliers in two channels before two products and a residual sum."""
    rng = np.random.default_rng(1)
    outliers = np.ones(16, np.float32)
    outliers[[3, 11]] = 50.0
    weights = {
        "gain": outliers * (1 + normal(rng, 16) / 4), "shift": normal(rng, 16) * outliers,
        "w1": normal(rng, 16, 16) / outliers[:, None], "w2": normal(rng, 16, 16) / outliers[:, None],
        "less": (1 / outliers),
    }  # fmt: skip
    nodes = [
        helper.make_node("LayerNormalization", ["x", "gain", "shift"], ["n"], name="norm"),
        helper.make_node("MatMul", ["n", "w1"], ["a"], name="left"),
        helper.make_node("MatMul", ["n", "w2"], ["b"], name="right"),
        helper.make_node("Mul", ["n", "less"], ["m"], name="tamed"),
        helper.make_node("Add", ["a", "m"], ["s"], name="sum"),
        helper.make_node("Mul", ["s", "b"], ["y"], name="gate"),
    ]
    return make_model(nodes, {"x": (KIND, (1, 6, 16))}, {"y": (KIND, (1, 6, 16))}, weights, 17)


def gated():
    """A gain with outliers before two products, and the product of both, with outliers, before a third."""
    rng = np.random.default_rng(3)
    outliers = np.ones(16, np.float32)
    outliers[[2, 9]] = 50.0
    weights = {
        "gain": outliers * (1 + normal(rng, 16) / 4), "w1": normal(rng, 16, 16) / outliers[:, None],
        "w2": normal(rng, 16, 16) / outliers[:, None] * outliers, "w3": normal(rng, 16, 16) / outliers[:, None],
    }  # fmt: skip
    nodes = [
        helper.make_node("Mul", ["x", "gain"], ["n"], name="norm"),
        helper.make_node("MatMul", ["n", "w1"], ["a"], name="gate"),
        helper.make_node("Sigmoid", ["a"], ["g"], name="sigmoid"),
        helper.make_node("MatMul", ["n", "w2"], ["u"], name="up"),
        helper.make_node("Mul", ["g", "u"], ["m"], name="gated"),
        helper.make_node("MatMul", ["m", "w3"], ["y"], name="down"),
    ]
    return make_model(nodes, {"x": (KIND, (1, 6, 16))}, {"y": (KIND, (1, 6, 16))}, weights, 17)


MODELS = {separable: ["depthwise", "narrow"], transformer: ["left", "right"], gated: ["gate", "up", "down"]}


def inputs(model):
    shape = [dim.dim_value for dim in model().graph.input[0].type.tensor_type.shape.dim]
    return np.random.default_rng(6).standard_normal((12, *shape)).astype(np.float32)


@functools.cache
def quantized(model):
    return tw.quantize(model(), {"x": inputs(model)}, equalize=True, threads=1, for_onnx=True, objective=None)


@pytest.mark.parametrize("model", MODELS)
def test_floats_stay_what_they_are(model):
    mod = prepared(import_model(model(), None), fold_scales=False)
    found = layers(mod["main"])
    at = sites(post_order(mod["main"].body), found)
    assert [layer.name for site in at for layer in site.layers] == MODELS[model]
    rng = np.random.default_rng(2)
    factors = {}
    for site in at:
        own = tuple(np.exp2(rng.integers(-4, 5, site.channels)))
        factors.update({layer.name: own for layer in site.layers})
    scaled, divided = equalize(mod, found, factors)
    assert list(divided) == {separable: ["wide", "depthwise"], transformer: [], gated: ["up"]}[model]
    assert [layer.name for layer in layers(scaled["main"])] == [layer.name for layer in found]
    x = inputs(model)[0]
    np.testing.assert_array_equal(interpret(scaled, {"x": x})[0], interpret(mod, {"x": x})[0])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.sample(2)
def test_the_error_falls_where_ranges_differ(model):
    plain = tw.quantize(model(), {"x": inputs(model)}, threads=1, objective=None).recipe.losses["relative"]
    found = quantized(model).recipe
    assert [name for name, choice in found.choices.items() if choice.factors] == MODELS[model]
    assert found.losses["relative"] < plain / 2


@pytest.mark.sample(1)
@pytest.mark.parametrize("model", MODELS)
def test_the_recipe_and_the_onnx_file_have_the_factors(model, tmp_path):
    found = quantized(model)
    found.recipe.save(tmp_path / "recipe.json")
    again = tw.quantize(model(), recipe=tmp_path / "recipe.json")
    assert [name for name, choice in again.recipe.choices.items() if choice.factors] == MODELS[model]
    ours, file = found.compile(threads=1), tw.compile(found.to_onnx(), threads=1)
    for x in inputs(model)[:3]:
        assert np.array_equal(ours(x), again.compile(threads=1)(x))
        assert np.array_equal(ours(x), file(x))


def test_factors_that_do_not_fit_are_refused():
    found = quantized(separable).recipe
    choices = dict(found.choices)
    choices["narrow"] = dataclasses.replace(choices["narrow"], factors=(1.0, 2.0))
    with pytest.raises(InputError, match="factors for the channels that the layer 'narrow' reads"):
        tw.quantize(separable(), recipe=dataclasses.replace(found, choices=choices))
