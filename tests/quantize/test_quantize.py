"""`tw.quantize`: against exact arithmetic, against onnxruntime on the ONNX file, the budget, recipes, errors."""

import functools

import numpy as np
import onnx
import onnxruntime
import pytest

import tilewright as tw
from tests.onnx_models import make_model
from tests.quantize.models import images, network, perceptron, rows
from tilewright.errors import InputError, UnsupportedError
from tilewright.quantize import read_recipe
from tilewright.quantize.data import split
from tilewright.quantize.ranges import METHODS
from tilewright.relay.interpreter.interpreter import interpret


@functools.cache
def convolutional():
    """The network of convolutions, of an operator set whose scales run along no axis."""
    return tw.quantize(
        network(opset=11), images(), threads=1, for_onnx=True, correct_bias=True, activations="int8", objective=None
    )


@functools.cache
def dense(**options):
    """The perceptron, quantized whatever its times are."""
    return tw.quantize(perceptron(), rows(), threads=1, objective=None, **options)


def held_out(data):
    found = [data["x"][number : number + 1] for number in split(len(data["x"])).held_out]
    assert found
    return found


def run_float(file, x):
    """The results of an ONNX file in onnxruntime, with its optimizations off: floats of codes, thus exact sums."""
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(file.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def test_every_layer_has_a_choice():
    recipe = convolutional().recipe
    assert [choice.operator for choice in recipe.choices.values()] == [
        "nn.conv2d", "nn.conv2d", "add", "nn.global_avg_pool2d", "nn.dense", "nn.dense",
    ]  # fmt: skip
    assert list(recipe.choices)[1:] == ["depthwise", "residual", "pool", "wide", "classes"]
    assert recipe.quantized == list(recipe.choices)
    first = next(iter(recipe.choices.values()))
    assert (first.tensors, first.codes[0].dtype, len(first.weight_scales)) == (("x",), "int8", 8)
    assert recipe.settings["samples"] == {"calibration": 6, "search": 3, "held_out": 3}


@pytest.mark.parametrize(("make", "data"), [(convolutional, images), (dense, rows)])
def test_the_artifact_and_the_onnx_file_agree_with_onnxruntime_and_exact_arithmetic(make, data):
    found = make()
    ours, file = found.compile(threads=1), found.to_onnx()
    onnx.checker.check_model(file)
    kinds = [node.op_type for node in file.graph.node]
    assert "BatchNormalization" not in kinds
    choices = found.recipe.choices.values()
    assert kinds.count("QuantizeLinear") == len({pair for one in choices for pair in zip(one.tensors, one.codes)})
    for x in held_out(data()):
        y = ours(x)
        exact = interpret(found.module, {"x": x})[0]
        # where a rounding decides otherwise, a tensor is one of 255 steps off
        bound = np.abs(exact).max() / 255
        assert np.abs(y - exact).max() <= bound
        assert np.abs(y - run_float(file, x)).max() <= bound


def test_the_artifact_is_the_onnx_file_compiled_bit_by_bit():
    found = convolutional()
    ours, again = found.compile(threads=1), tw.compile(found.to_onnx(), threads=1)
    assert all(np.array_equal(ours(x), again(x)) for x in held_out(images()))


def test_the_loss_is_that_of_the_compiled_model_on_samples_held_out():
    found, float_model = dense(), tw.compile(perceptron(), threads=1)
    ours = found.compile(threads=1)
    pairs = [(float_model(x), ours(x)) for x in held_out(rows())]
    error = np.sqrt(sum(np.sum((a - b) ** 2.0) for a, b in pairs) / sum(np.sum(a**2.0) for a, _ in pairs))
    assert found.recipe.losses["relative"] == pytest.approx(error, rel=1e-3)
    assert 1e-4 < error < 0.05
    assert found.recipe.losses["argmax"] == np.mean([a.argmax() != b.argmax() for a, b in pairs])


def test_effects_are_those_of_the_layers_own_results():
    assert list(convolutional().effects) == convolutional().recipe.quantized
    for effect in convolutional().effects.values():
        assert effect.decibels == pytest.approx(-20 * np.log10(effect.error))
        assert 20 < effect.decibels < 70


def test_best_is_one_of_the_methods():
    assert dense(method="best").recipe.settings["method"] in METHODS


def test_layers_stay_in_float_until_the_budget_holds():
    whole = dense().recipe.losses["relative"]
    found = dense(max_loss=whole * 1.1, measure="relative")
    recipe = found.recipe
    (out,) = [name for name, choice in recipe.choices.items() if choice.in_float]
    assert recipe.choices[out].in_float == f"alone it costs {found.alone[out].model_error:.3%} of the result"
    assert found.alone[out].model_error == max(one.model_error for one in found.alone.values())
    assert recipe.losses["relative"] < recipe.settings["bound"] <= whole * 1.1


def test_a_budget_out_of_reach_is_refused():
    with pytest.raises(InputError, match=r"max_loss 1e-08 \(relative\) is out of reach"):
        dense(max_loss=1e-8, measure="relative")


def test_a_recipe_makes_the_same_model_again(tmp_path):
    found = convolutional()
    found.recipe.save(tmp_path / "recipe.json")
    assert read_recipe(tmp_path / "recipe.json") == found.recipe
    again = tw.quantize(network(opset=11), recipe=tmp_path / "recipe.json", for_onnx=True)
    assert again.to_onnx().SerializeToString() == found.to_onnx().SerializeToString()
    for one, name in ((found, "a.tw"), (again, "b.tw")):
        one.compile(threads=1).save(tmp_path / name)
    assert (tmp_path / "a.tw").read_bytes() == (tmp_path / "b.tw").read_bytes()


def test_a_recipe_of_another_model_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"has the layer 'inner', which the model has not"):
        tw.quantize(network(), recipe=dense().recipe)
    with pytest.raises(InputError, match="has 16 channels for the layer 'inner', the model 12"):
        tw.quantize(perceptron(wide=12), recipe=dense().recipe)
    (tmp_path / "r.json").write_text('{"format": "something"}')
    with pytest.raises(InputError, match="is no recipe"):
        tw.quantize(perceptron(), recipe=tmp_path / "r.json")


def test_labels_measure_accuracy():
    float_model = tw.compile(perceptron(), threads=1)
    labels = np.array([int(float_model(x[None]).argmax()) for x in rows()["x"]])
    found = tw.quantize(perceptron(), rows(), labels=labels, threads=1, objective=None).recipe
    assert found.settings["measure"] == "accuracy"
    assert found.losses["accuracy_float"] == 1.0
    assert found.losses["accuracy"] == 1.0 - found.losses["argmax"]


def test_biases_of_channels_without_weights_stay():
    """A channel whose weights are 1e-30 has a scale that its bias fits into."""
    model = perceptron()
    weight = next(one for one in model.graph.initializer if one.name == "w")
    values = onnx.numpy_helper.to_array(weight).copy()
    values[:8] = 1e-30
    weight.CopyFrom(onnx.numpy_helper.from_array(values, "w"))
    x = rows()["x"][:1]
    exact = tw.compile(model, threads=1)(x)
    found = tw.quantize(model, rows(), threads=1, objective=None)
    assert np.linalg.norm(found.compile(threads=1)(x) - exact) < 0.02 * np.linalg.norm(exact)
    assert np.linalg.norm(run_float(found.to_onnx(), x) - exact) < 0.02 * np.linalg.norm(exact)


def test_symbolic_batches_stay_symbolic():
    exe = tw.quantize(perceptron(rows="n"), rows(), threads=1, objective=None).compile(threads=1)
    whole = exe(rows()["x"])
    assert whole.shape == (200, 5)
    assert np.array_equal(whole[3:4], exe(rows()["x"][3:4]))


def test_errors_name_what_is_wrong():
    with pytest.raises(InputError, match="no data to calibrate on"):
        tw.quantize(perceptron())
    with pytest.raises(InputError, match="method is one of minmax"):
        dense(method="guess")
    with pytest.raises(InputError, match="max_loss is a share"):
        dense(max_loss=2.0)
    with pytest.raises(UnsupportedError, match="quantized already"):
        tw.quantize(dense().to_onnx(), rows())
    with pytest.raises(UnsupportedError, match="only ONNX models are written as ONNX"):
        tw.quantize(dense().module, rows(), for_onnx=True)
    with pytest.raises(InputError, match=r"float model computes NaN or infinity in inner:input|x holds NaN"):
        tw.quantize(perceptron(), {"x": np.full((4, 8), np.nan)})


def test_a_model_without_layers_is_refused():
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    model = make_model([node], {"x": (1, (1, 3))}, {"y": (1, (1, 3))})
    with pytest.raises(InputError, match="no convolution or dense layer"):
        tw.quantize(model, {"x": np.zeros((3, 3), np.float32)})


def test_samples_of_a_small_network_serve_several_purposes():
    recipe = tw.quantize(perceptron(), rows(1), threads=1).recipe
    assert recipe.settings["samples"] == {"calibration": 1, "search": 1, "held_out": 1}
