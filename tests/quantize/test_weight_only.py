"""`tw.quantize(model, weights=…)`: against exact arithmetic and onnxruntime, by layer, recipes, the budget, errors."""

import functools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.onnx_models import make_model
from tests.quantize.models import perceptron, rows
from tilewright import relay
from tilewright.errors import InputError, UnsupportedError
from tilewright.quantize import read_weight_recipe


def decoder():
    """An embedding whose table is the head's weights, too, and a Gemm: ids [2, 3] to y [2, 3, 40], of any batch."""
    rng = np.random.default_rng(4)
    values = {
        "table": rng.standard_normal((40, 32)),
        "w": rng.standard_normal((32, 48)),
        "v": rng.standard_normal((48, 32)),
    }
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"], name="embedding"),
        helper.make_node("MatMul", ["e", "w"], ["h"], name="up"),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("MatMul", ["r", "v"], ["d"], name="down"),
        helper.make_node("Transpose", ["table"], ["t"], name="turned", perm=[1, 0]),
        helper.make_node("MatMul", ["d", "t"], ["y"], name="head"),
    ]
    constants = {name: value.astype(np.float32) for name, value in values.items()}
    ids = {"ids": (TensorProto.INT64, ("batch", 3))}
    return make_model(nodes, ids, {"y": (TensorProto.FLOAT, ("batch", 3, 40))}, constants), constants


IDS = np.array([[0, 39, 7], [8, 8, 21]])


def by_onnxruntime(file, **inputs):
    session = onnxruntime.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


@functools.cache
def searched():
    """The perceptron within a budget that needs more than 4 bits in one of its layers."""
    return tw.quantize(perceptron(), rows(), weights=4, block=16, max_loss=0.07, measure="relative", threads=1)


@pytest.mark.parametrize(
    ("bits", "symmetric", "tables"), [(8, True, True), (4, True, True), (4, False, False), (2, False, False)]
)
@pytest.mark.sample(2)
def test_artifact_and_onnx_file_agree_with_exact_arithmetic(bits, symmetric, tables):
    model, values = decoder()
    found = tw.quantize(model, weights=bits, block=16, symmetric=symmetric, tables=tables, for_onnx=True)
    names = [*(["embedding"] if tables else []), "up", "down", "head"]
    assert found.recipe.quantized == names
    exact = {name: one.floats().astype(np.float64) for name, one in found.coded.items()}
    hidden = exact["embedding"][IDS] if tables else values["table"][IDS].astype(np.float64)
    expected = np.maximum(hidden @ exact["up"].T, 0) @ exact["down"].T @ exact["head"].T
    file, scale = found.to_onnx(), np.abs(expected).max()
    ours = found.compile(threads=1)(IDS)
    assert np.abs(ours - expected).max() <= 3e-6 * scale
    assert np.array_equal(ours, tw.compile(file, threads=1)(IDS))
    kinds = [node.op_type for node in file.graph.node]
    assert kinds.count("MatMulNBits") == 3
    assert ("GatherBlockQuantized" in kinds) == tables
    assert not tables or "table" not in {tensor.name for tensor in file.graph.initializer}
    if bits > 2 or not tables:
        assert np.abs(by_onnxruntime(file, ids=IDS) - expected).max() <= 3e-6 * scale


def test_bits_that_onnx_has_not_make_artifacts():
    model, _values = decoder()
    found = tw.quantize(model, weights=3, tables=True)
    table, up, down, head = (found.coded[name].floats() for name in ("embedding", "up", "down", "head"))
    expected = np.maximum(table[IDS] @ up.T, 0) @ down.T @ head.T
    assert np.abs(found.compile(threads=1)(IDS) - expected).max() <= 3e-6 * np.abs(expected).max()
    with pytest.raises(UnsupportedError, match="MatMulNBits has codes of 2, 4 and 8 bits, not 3"):
        tw.quantize(model, weights=3, for_onnx=True)


def test_a_gemm_keeps_its_bias():
    found = tw.quantize(perceptron(), weights=8, for_onnx=True, threads=1)
    x = rows()["x"][:1]
    exact = tw.compile(perceptron(), threads=1)(x)
    ours = found.compile(threads=1)(x)
    assert np.abs(ours - exact).max() < 0.01 * np.abs(exact).max()
    np.testing.assert_allclose(by_onnxruntime(found.to_onnx(), x=x), ours, rtol=1e-5, atol=1e-5)


def test_without_data_effects_are_those_of_the_weights():
    model, values = decoder()
    found = tw.quantize(model, weights=4)
    assert list(found.effects) == ["up", "down", "head"]
    error = np.linalg.norm(values["w"].T - found.coded["up"].floats()) / np.linalg.norm(values["w"])
    assert found.effects["up"].error == pytest.approx(error, rel=1e-5)
    assert found.effects["up"].decibels == pytest.approx(-20 * np.log10(error), rel=1e-5)
    # codes of 4 bits and a float32 scale for 32 of them, where the depth is as long
    assert found.weight_bytes == (4 * (48 * 32 + 32 * 48 + 40 * 32), 20 * (48 + 32 * 2 + 40))
    assert found.recipe.losses == {}


def test_with_data_rounding_lowers_the_loss():
    x = np.random.default_rng(7).standard_normal((200, 8)) @ np.random.default_rng(8).standard_normal((8, 8))
    data = {"x": x.astype(np.float32)}
    found = tw.quantize(perceptron(), data, weights=4, block=16, threads=1)
    assert found.recipe.settings["rounding"] == "compensated"
    assert found.recipe.settings["samples"] == {"calibration": 100, "search": 50, "held_out": 50}
    exact, ours = tw.compile(perceptron(), threads=1), found.compile(threads=1)
    nearest = tw.quantize(perceptron(), weights=4, block=16).compile(threads=1)
    errors = [
        sum(np.sum((one(row[None]) - exact(row[None])) ** 2) for row in data["x"][:50]) for one in (ours, nearest)
    ]
    assert errors[0] < errors[1]
    assert 15 < found.effects["outer"].decibels < 40


def test_the_budget_has_more_bits_where_they_help_most():
    found = searched()
    assert sorted(found.recipe.choices[name].bits for name in found.recipe.quantized) == [4, 8]
    assert 0 < found.recipe.losses["relative"] < found.recipe.settings["bound"] <= 0.07
    assert tw.quantize(perceptron(), rows(), weights=4, block=16, threads=1).recipe.losses["relative"] > 0.07


def test_a_narrow_budget_leaves_a_layer_in_float():
    found = tw.quantize(perceptron(), rows(), weights=8, block=16, max_loss=0.0035, measure="relative", threads=1)
    assert found.recipe.losses["relative"] < found.recipe.settings["bound"] <= 0.0035
    assert len(found.recipe.quantized) == 1
    assert "of the result" in next(one.in_float for one in found.recipe.choices.values() if one.in_float)


@pytest.mark.parametrize("make", [searched, lambda: tw.quantize(perceptron(), weights=4, symmetric=False)])
def test_the_recipe_makes_the_same_model(tmp_path, make):
    found = make()
    found.recipe.save(tmp_path / "r.json")
    assert read_weight_recipe(tmp_path / "r.json") == found.recipe
    again = tw.quantize(perceptron(), recipe=tmp_path / "r.json")
    for name in ("first.tw", "second.tw"):
        (found if name == "first.tw" else again).compile(threads=1).save(tmp_path / name)
    assert (tmp_path / "first.tw").read_bytes() == (tmp_path / "second.tw").read_bytes()
    with pytest.raises(
        InputError, match=r"other weights for the layer 'inner'|has the layer 'inner', which the model has not"
    ):
        tw.quantize(perceptron(wide=17), recipe=found.recipe)


def test_symbolic_sizes_stay_symbolic():
    model, _ = decoder()
    ours = tw.quantize(model, weights=4).compile(threads=1)
    both = ours(IDS)
    for row in range(2):
        np.testing.assert_allclose(ours(IDS[row : row + 1])[0], both[row], rtol=1e-5, atol=1e-4)


def test_a_relay_module_has_an_artifact_but_no_onnx_file():
    x = relay.var("x", shape=(3, 32))
    w = np.random.default_rng(5).standard_normal((8, 32)).astype(np.float32)
    found = tw.quantize(relay.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, relay.const(w)))), weights=4)
    data = np.random.default_rng(6).standard_normal((3, 32)).astype(np.float32)
    (coded,) = found.coded.values()
    np.testing.assert_allclose(found.compile(threads=1)(data), data @ coded.floats().T, rtol=1e-5, atol=1e-5)
    with pytest.raises(UnsupportedError, match="only ONNX models are written as ONNX"):
        found.to_onnx()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": 9}, "weights is one of 2, 3, 4, 5, 6, 7, 8; got 9"),
        ({"weights": 4, "block": 48}, "block is one of 16, 32, 64, 128, 256; got 48"),
        ({"weights": 4, "accuracy_level": 7}, "accuracy_level is one of 0, 1, 2, 3, 4; got 7"),
        ({"weights": 4, "max_loss": 0.1}, "max_loss needs data to measure the loss on; pass --data"),
        ({"weights": 4, "max_loss": 2.0}, "max_loss is a share of one"),
        ({"weights": 4, "data": {"x": np.full((4, 8), np.nan)}}, "x holds NaN or infinity"),
        (
            {"weights": 4, "data": rows(), "max_loss": 1e-9, "measure": "relative"},
            r"max_loss 1e-09 \(relative\) is out of reach: it does not hold with the weights of a single layer",
        ),
    ],
)
def test_bad_wishes_have_one_message(options, message):
    with pytest.raises(InputError, match=message):
        tw.quantize(perceptron(), **options)


def test_models_without_layers_or_with_few_bits_already():
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    kind = (TensorProto.FLOAT, (2, 3))
    with pytest.raises(InputError, match="no dense layer with constant float32 weights that could have few bits"):
        tw.quantize(make_model(nodes, {"x": kind}, {"y": kind}), weights=4)
    file = tw.quantize(perceptron(), weights=4, for_onnx=True).to_onnx()
    onnx.checker.check_model(file)
    with pytest.raises(UnsupportedError, match="weights have few bits already; pass the float model"):
        tw.quantize(file, weights=4)
