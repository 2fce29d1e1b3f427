"""Differentiation of straight-line functions: before and after, against known values, compiled; its errors."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import module, op_names
from tilewright import relay
from tilewright.errors import ModelError, UnsupportedError
from tilewright.relay.op.gradients.adjoint import adjoints
from tilewright.relay.transform.gradient.gradient import gradient


def product() -> tuple[relay.Function, relay.Var, relay.Var]:
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    return relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w))), x, w


def test_before_and_after() -> None:
    x = relay.var("x", shape=(3,))
    after = gradient(relay.Function([x], relay.exp(x)))
    e = relay.exp(x)
    wanted = relay.Function([x], relay.Tuple([e, relay.Tuple([relay.multiply(relay.ones((3,)), e)])]))
    assert relay.structural_equal(after, wanted)
    result = after.body.fields[0]
    assert after.body.fields[1].fields[0].args[1] is result, "the forward value is shared, not computed again"


def test_values_and_shares() -> None:
    func, _, _ = product()
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((2, 3)).astype("float32"), rng.standard_normal((4, 3)).astype("float32")
    out, dx, dw = relay.interpret(gradient(func), [x, w])
    mask = (x @ w.T > 0).astype("float32")
    np.testing.assert_allclose(out, np.maximum(x @ w.T, 0), rtol=1e-6)
    np.testing.assert_allclose(dx, mask @ w, rtol=1e-5)
    np.testing.assert_allclose(dw, mask.T @ x, rtol=1e-5)


def test_only_what_is_asked_for() -> None:
    func, _, w = product()
    assert len(gradient(func, wrt=[w]).body.fields[1].fields) == 1
    with pytest.raises(UnsupportedError, match="other: no parameter of the function; wrt names parameters"):
        gradient(func, wrt=[relay.var("other", shape=())])


def test_a_value_used_twice_gets_the_sum() -> None:
    x = relay.var("x", shape=(4,))
    data = np.linspace(-1, 1, 4, dtype="float32")
    _, dx = relay.interpret(gradient(relay.Function([x], x * x * x + relay.sin(x))), [data])
    np.testing.assert_allclose(dx, 3 * data**2 + np.cos(data), rtol=1e-5)


def test_tuples_and_lets() -> None:
    x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
    parts = relay.split(y * y, 2)
    body = relay.Let(y, relay.exp(x), relay.Tuple([parts[0] * relay.const(3.0), relay.concatenate([parts[1], x])]))
    data = np.linspace(-1, 1, 4, dtype="float32")
    *_, dx = relay.interpret(gradient(relay.Function([x], body)), [data])
    np.testing.assert_allclose(dx, 2 * np.exp(2 * data) * [3, 3, 1, 1] + 1, rtol=1e-5)


def test_second_and_third_derivative() -> None:
    x = relay.var("x", shape=(5,))
    cube = relay.Function([x], relay.power(x, relay.const(3.0)))
    data = np.linspace(0.5, 2, 5, dtype="float32")
    first = gradient(cube).body.fields[1].fields[0]
    second = adjoints(first, [x])[0]
    third = adjoints(second, [x])[0]
    found = relay.interpret(relay.Function([x], relay.Tuple([first, second, third])), [data])
    for got, want in zip(found, (3 * data**2, 6 * data, np.full(5, 6.0)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_integers_have_no_gradient() -> None:
    x, index = relay.var("x", shape=(4, 3)), relay.var("i", shape=(5,), dtype="int32")
    rows = np.array([0, 2, 2, -1, 9], "int32")
    for mode, counts in (("clip", [2, 0, 2, 1]), ("from_back", [1, 0, 2, 2]), ("wrap", [1, 1, 2, 1])):
        func = gradient(relay.Function([x, index], relay.take(x, index, axis=0, mode=mode)))
        _, dx, di = relay.interpret(func, [np.ones((4, 3), "float32"), rows])
        np.testing.assert_array_equal(dx[:, 0], counts)
    assert di.dtype == np.int32 and not di.any()


def test_an_inner_node_as_target() -> None:
    x = relay.var("x", shape=(3,))
    inner = relay.exp(x)
    (g,) = adjoints(inner * inner, [inner])
    (got,) = relay.interpret(relay.Function([x], g), [np.zeros(3, "float32")])
    np.testing.assert_array_equal(got, [2, 2, 2])


def test_a_compiled_gradient_agrees_with_the_interpreter() -> None:
    """The passes that inference has (layouts, fusion, dead code) apply to a differentiated network."""
    rng = np.random.default_rng(2)
    x, w = relay.var("x", shape=(4, 3, 8, 8)), relay.var("w", shape=(16, 3, 3, 3))
    features = relay.nn.max_pool2d(relay.nn.relu(relay.nn.conv2d(x, w, padding=1)), 2, 2)
    v = relay.var("v", shape=(10, 256))
    func = gradient(relay.Function([x, w, v], relay.nn.dense(relay.nn.batch_flatten(features), v)))
    mod = module(func)
    feed = [rng.standard_normal(p.type_annotation.shape).astype("float32") for p in func.params]
    wanted = relay.interpret(mod, feed)
    got = tw.compile(mod, cache=False)(*feed)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert "nn.conv2d_backward_weight" in op_names(module(func))


def test_an_operator_without_gradient_is_named_with_its_call() -> None:
    x = relay.var("x", shape=(8, 2, 3, 3))
    weights = relay.nn.contrib_conv2d_winograd_weight_transform(x, 4, block=8)
    message = r"winograd_weight_transform\(Tensor\[\(8, 2, 3, 3\), float32\], tile_size=4.*has no gradient; leave"
    with pytest.raises(UnsupportedError, match=message):
        gradient(relay.Function([x], weights))


def test_unknown_mode_and_missing_module() -> None:
    func, _, _ = product()
    with pytest.raises(UnsupportedError, match="mode 'forward'; known: auto, first_order, higher_order"):
        gradient(func, mode="forward")
    with pytest.raises(UnsupportedError, match="a function is needed, not a GlobalVar; pass the module of a GlobalVar"):
        gradient(relay.GlobalVar("main"))


@pytest.mark.parametrize("mode", ["first_order", "higher_order"])
def test_gradients_of_a_function_with_named_results_have_names(mode: str) -> None:
    x, y = (relay.var(name, shape=(2, 3)) for name in "xy")
    func = relay.Function([x, y], relay.multiply(x, relay.exp(y)), attrs={"output_names": ("product",)})
    made = gradient(func, mode=mode)
    assert made.attrs["output_names"] == ("product", "x:gradient", "y:gradient")
    given = {"x": np.ones((2, 3), np.float32), "y": np.zeros((2, 3), np.float32)}
    executable = tw.compile(relay.IRModule.from_expr(made), cache=False)
    assert [spec.name for spec in executable.outputs] == ["product", "x:gradient", "y:gradient"]
    for found in executable.run(given):
        np.testing.assert_allclose(found, np.ones((2, 3)))


def test_too_few_names_for_the_results_are_refused() -> None:
    x = relay.var("x", shape=(2, 3))
    func = relay.Function([x], relay.Tuple([x, relay.exp(x)]), attrs={"output_names": ("one",)})
    with pytest.raises(ModelError, match="1 names for 2 outputs"):
        tw.compile(relay.IRModule.from_expr(func), cache=False)
