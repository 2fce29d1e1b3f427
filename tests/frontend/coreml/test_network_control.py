"""Branches and loops of Core ML networks, compiled, beside the same in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.coreml.test_networks import layer, network
from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.coreml import from_coreml

X = np.array([[0.5, -1.0, 2.0]], np.float32)


def binary(kind: str, left: str, right: str, out: str) -> Any:
    return layer(kind, {}, [left, right], [out])


def scalar(value: float, out: str) -> Any:
    return layer("loadConstantND", {"shape": [1], "data": {"floatValue": [value]}}, [], [out])


def loop(body: list[Any], condition: list[Any] | None = None, limit: int = 0, inputs: Any = ()) -> Any:
    """A loop whose condition, if it has one, writes "goes"."""
    params: dict[str, Any] = {"bodyNetwork": {"layers": body}, "maxLoopIterations": limit}
    if condition is not None:
        params |= {"conditionNetwork": {"layers": condition}, "conditionVar": "goes"}
    return layer("loop", params, inputs, [])


def branch(condition: str, yes: list[Any], no: list[Any]) -> Any:
    return layer("branch", {"ifBranch": {"layers": yes}, "elseBranch": {"layers": no}}, [condition], [])


def run(inputs: dict[str, Any], layers: list[Any], outputs: list[str]) -> list[np.ndarray]:
    model = network({name: np.shape(value) for name, value in inputs.items()}, layers, outputs)
    return [np.asarray(one) for one in tw.compile(model, cache=False).run(inputs)]


#: The body of loops: a = a * w + a, by a value of its own.
BODY = [binary("multiplyBroadcastable", "a", "w", "product"), binary("addBroadcastable", "product", "a", "sum"),
        layer("copy", {}, ["sum"], ["a"])]  # fmt: skip
W = np.array([[0.5, 0.25, -0.5]], np.float32)


@pytest.mark.parametrize("limit", [0, 1, 4])
@pytest.mark.parametrize("way", ["of the file", "of an input"])
def test_a_loop_runs_as_often_as_its_limit_says(limit: int, way: str) -> None:
    feeds: dict[str, Any] = {"x": X, "w": W}
    if way == "of an input":
        feeds["n"] = np.array([limit], np.float32)
    body = loop(BODY, limit=limit if way == "of the file" else 7, inputs=["n"] if way == "of an input" else [])
    found, last = run(feeds, [layer("copy", {}, ["x"], ["a"]), body, binary("addBroadcastable", "a", "x", "y")],
                      ["a", "y"])  # fmt: skip
    np.testing.assert_allclose(found, X * (1 + W) ** limit, rtol=1e-5)
    np.testing.assert_allclose(last, found + X, rtol=1e-6)


@pytest.mark.parametrize("limit", [0, 3])
@pytest.mark.parametrize("start", [0.5, 3.0, 20.0])
def test_a_loop_goes_on_while_its_condition_holds_and_not_beyond_its_limit(start: float, limit: int) -> None:
    """The condition counts how often it is asked, and the test after the last iteration counts too."""
    condition = [scalar(1.0, "one"), binary("addBroadcastable", "asked", "one", "more"),
                 layer("copy", {}, ["more"], ["asked"]),
                 layer("lessThan", {"alpha": 10.0}, ["a"], ["goes"])]  # fmt: skip
    body = [binary("addBroadcastable", "a", "a", "twice"), layer("copy", {}, ["twice"], ["a"])]
    layers = [layer("copy", {}, ["s"], ["a"]), scalar(0.0, "asked"), loop(body, condition, limit)]
    found, asked = run({"s": np.array([start], np.float32)}, layers, ["a", "asked"])
    wanted, count = start, 0
    while wanted < 10 and (not limit or count < limit):
        wanted, count = wanted * 2, count + 1
    assert found == wanted and asked == count + 1


def test_what_a_loop_writes_first_is_seen_after_it() -> None:
    layers = [layer("copy", {}, ["x"], ["a"]), loop(BODY, limit=600)]
    found, product = run({"x": X, "w": W * 0.01}, layers, ["a", "product"])
    np.testing.assert_allclose(found, X * (1 + W * 0.01) ** 600, rtol=1e-4)
    np.testing.assert_allclose(product, X * (1 + W * 0.01) ** 599 * W * 0.01, rtol=1e-4)


@pytest.mark.parametrize("n", [0, 3])
def test_a_loop_within_a_loop(n: int) -> None:
    """Both run n times, over values of both networks around."""
    inner = loop([binary("addBroadcastable", "a", "w", "t"), layer("copy", {}, ["t"], ["a"])], inputs=["n"])
    outer = loop([inner, binary("multiplyBroadcastable", "a", "x", "u"), layer("copy", {}, ["u"], ["a"])], inputs=["n"])
    (found,) = run({"x": X, "w": W, "n": np.array([n], np.float32)}, [layer("copy", {}, ["x"], ["a"]), outer], ["a"])
    wanted = X.copy()
    for _ in range(n):
        wanted = (wanted + n * W) * X
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("positive", [0.0, 1.0])
@pytest.mark.parametrize("known", [False, True])
def test_a_branch_writes_into_the_network_around_it(positive: float, known: bool) -> None:
    """Branches that write a value of before, and one of their own each; one is read only where it is written."""
    yes = [binary("addBroadcastable", "a", "a", "of_yes"), layer("copy", {}, ["of_yes"], ["a"])]
    no = [layer("tanh", {}, ["a"], ["of_no"]), layer("tanh", {}, ["of_no"], ["b"])]
    first = [scalar(positive, "c")] if known else []
    layers = [*first, layer("copy", {}, ["x"], ["a"]), layer("copy", {}, ["x"], ["b"]), branch("c", yes, no)]
    feeds = {"x": X} if known else {"x": X, "c": np.array([positive], np.float32)}
    a, b = run(feeds, layers, ["a", "b"])
    np.testing.assert_allclose(a, 2 * X if positive else X, rtol=1e-6)
    np.testing.assert_allclose(b, X if positive else np.tanh(np.tanh(X)), rtol=1e-5)


def test_what_has_no_meaning_is_one_message() -> None:
    start = layer("copy", {}, ["x"], ["a"])
    growing = loop([layer("concatND", {"axis": 1}, ["a", "a"], ["t"]), layer("copy", {}, ["t"], ["a"])], inputs=["n"])
    with pytest.raises(UnsupportedError, match=r"loop.*change their types"):
        from_coreml(network({"x": (1, 3), "n": (1,)}, [start, growing], ["a"]))
    unlike = branch("n", [layer("concatND", {"axis": 1}, ["a", "a"], ["a"])], [])
    with pytest.raises(UnsupportedError, match=r"'a' is .*\(1, 6\).* after one branch and .*\(1, 3\)"):
        from_coreml(network({"x": (1, 3), "n": (1,)}, [start, unlike], ["a"]))
    with pytest.raises(UnsupportedError, match="loopBreak"):
        from_coreml(network({"x": (1, 3)}, [start, loop([layer("loopBreak", {}, [], [])], limit=2)], ["a"]))
    nameless = layer("loop", {"bodyNetwork": {"layers": BODY}, "conditionNetwork": {"layers": BODY}}, [], [])
    with pytest.raises(ModelError, match="its condition has no name"):
        from_coreml(network({"x": (1, 3), "w": (1, 3)}, [start, nameless], ["a"]))
