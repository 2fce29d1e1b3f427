"""Models of thousands of nodes, in a row and side by side, compile and compute; what it costs grows with their size."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.onnx_models import make_model
from tilewright import relay
from tilewright.driver.build import extract_tasks
from tilewright.driver.optimize import optimize
from tilewright.frontend.onnx import from_onnx
from tilewright.relay.ir.expr import Call, Expr, Function, If, Let, Tuple
from tilewright.relay.ir.json import save_json
from tilewright.relay.ir.json_reader import load_json
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.parser import parse
from tilewright.relay.ir.printer import astext
from tilewright.relay.ir.structural import structural_equal
from tilewright.relay.transform.memory.plan_memory import plan_memory
from tilewright.target import Target

DATA = np.array([-2.0, -0.5, 0.25, 3.0], "float32")
DEEP = sys.getrecursionlimit() // 2
FLOATS = (TensorProto.FLOAT, [4])


def chain(length: int) -> onnx.ModelProto:
    """Sigmoid and Neg by turns."""
    nodes = [
        helper.make_node("Neg" if i % 2 else "Sigmoid", [f"x{i}"], [f"x{i + 1}"], name=f"node{i}")
        for i in range(length)
    ]
    return make_model(nodes, {"x0": FLOATS}, {f"x{length}": FLOATS})


def joined(op: str, count: int, computed: bool) -> onnx.ModelProto:
    """`op` of `count` values: inputs, or products of one input."""
    names = [f"x{i}" for i in range(count)]
    axis = {"axis": 0} if op == "Concat" else {}
    nodes, weights = [helper.make_node(op, names, ["y"], **axis)], {}
    if computed:
        nodes = [helper.make_node("Mul", ["x", f"c{i}"], [f"x{i}"]) for i in range(count)] + nodes
        weights = {f"c{i}": np.full(2, i / count, "float32").repeat(2) for i in range(count)}
    inputs = {"x": FLOATS} if computed else dict.fromkeys(names, FLOATS)
    size = 4 * count if op == "Concat" else 4
    return make_model(nodes, inputs, {"y": (TensorProto.FLOAT, [size])}, weights)


def tasks_of(model: onnx.ModelProto) -> tuple[int, int]:
    """The number of kernels that a model calls, and of the distinct ones among them."""
    target = Target("llvm -mcpu=x86-64-v3")
    order = plan_memory(optimize(from_onnx(model)[0], target)).order
    return len(order), len(extract_tasks(order)[0])


def test_a_chain_longer_than_the_recursion_limit() -> None:
    expected = DATA.astype("float64")
    for i in range(2 * DEEP):
        expected = -expected if i % 2 else 1 / (1 + np.exp(-expected))
    np.testing.assert_allclose(tw.compile(chain(2 * DEEP), cache=False)(DATA), expected, rtol=1e-5)


@pytest.mark.sample(2)
@pytest.mark.parametrize("computed", [False, True], ids=["inputs", "computed"])
@pytest.mark.parametrize("op", ["Sum", "Concat"])
def test_many_values_joined(op: str, computed: bool) -> None:
    count = 300
    model = tw.compile(joined(op, count, computed), cache=False)
    parts = [DATA * np.float32(i / count) for i in range(count)]
    (got,) = model.run({"x": DATA} if computed else {f"x{i}": part for i, part in enumerate(parts)})
    expected = np.concatenate(parts) if op == "Concat" else np.sum(parts, axis=0, dtype="float64")
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_kernels_grow_in_proportion_and_tasks_hardly() -> None:
    calls, tasks = tasks_of(chain(1000))
    more_calls, more_tasks = tasks_of(chain(4000))
    assert more_calls <= 4 * calls
    assert more_tasks <= tasks + 2
    calls, tasks = tasks_of(joined("Concat", 500, computed=False))
    more_calls, more_tasks = tasks_of(joined("Concat", 2000, computed=False))
    assert more_calls <= 5 * calls
    assert more_tasks <= tasks + 4


def nested_calls() -> Expr:
    """(fn (%v1) { (fn (%v2) { … })(relu(%v1)) })(relu(%x))"""
    names = [relay.var("x", shape=(4,)), *[relay.var(f"v{i}", shape=(4,)) for i in range(DEEP)]]
    body: Expr = relay.add(names[-1], names[0])
    for outer, inner in reversed(list(pairwise(names))):
        body = Call(Function([inner], body), [relay.nn.relu(outer)])
    return Function([names[0]], body)


def nested_branches() -> Expr:
    """if (%c) { relu(if (%c) { … } else { exp(%x) }) } else { exp(%x) }"""
    x, c = relay.var("x", shape=(4,)), relay.var("c", shape=(), dtype="bool")
    body: Expr = x
    for _ in range(DEEP):
        body = If(c, relay.nn.relu(body), relay.exp(x))
    return Function([x, c], body)


def nested_values() -> Expr:
    """let %v = { let %v = { … }; relu(%v) }; relu(%v)"""
    x = relay.var("x", shape=(4,))
    body: Expr = relay.nn.relu(x)
    for _ in range(DEEP):
        v = relay.var("v", shape=(4,))
        body = Let(v, body, relay.nn.relu(v))
    return Function([x], body)


PROGRAMS = {"calls": nested_calls, "branches": nested_branches, "values": nested_values}


@pytest.mark.parametrize("name", PROGRAMS)
def test_nested_programs_are_written_and_read(name: str) -> None:
    mod = IRModule.from_expr(PROGRAMS[name]())
    assert structural_equal(parse(astext(mod)), mod)
    assert structural_equal(load_json(save_json(mod)), mod)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sample(1)
def test_nested_programs_run(name: str) -> None:
    model = tw.compile(IRModule.from_expr(PROGRAMS[name]()), cache=False)
    relu = np.maximum(DATA, 0)
    if name == "branches":
        np.testing.assert_allclose(model(DATA, np.array(True)), relu)
        np.testing.assert_allclose(model(DATA, np.array(False)), np.exp(DATA), rtol=1e-6)
    else:
        np.testing.assert_allclose(model(DATA), relu + DATA if name == "calls" else relu)


def test_a_nested_tuple_is_typed_and_written() -> None:
    x = relay.var("x", shape=(4,))
    body: Expr = x
    for _ in range(DEEP // 2):
        body = Tuple([body])
    mod = IRModule.from_expr(Function([x], body))
    assert structural_equal(parse(astext(mod)), mod)
