"""Structural equality and hashing."""

import subprocess
import sys

import numpy as np

from tilewright import relay
from tilewright.relay.ir.structural import structural_equal, structural_hash


def _function(name: str = "x", axis: int = 1, scale: float = 2.0, dtype: str = "float32") -> relay.Function:
    x = relay.var(name, shape=(2, 3), dtype=dtype)
    y = relay.nn.softmax(relay.multiply(x, scale), axis=axis)
    return relay.Function([x], relay.add(y, x))


def test_names_and_spans_do_not_count() -> None:
    assert structural_equal(_function("a"), _function("b"))
    x = relay.var("x", shape=(2,))
    op = relay.nn.relu(x).op
    assert structural_equal(relay.Call(op, [x], span="a"), relay.Call(op, [x], span="b"))


def test_everything_else_does() -> None:
    variants = [_function(), _function(axis=0), _function(scale=3.0), _function(dtype="float16")]
    assert len({structural_hash(f) for f in variants}) == len(variants)


def test_a_shared_node_differs_from_two_equal_ones() -> None:
    x = relay.var("x", shape=(2,))
    shared = relay.exp(x)
    assert not structural_equal(relay.add(shared, shared), relay.add(relay.exp(x), relay.exp(x)))


def test_parameter_order_counts() -> None:
    a, b = relay.var("a", shape=(2,)), relay.var("b", shape=(2,))
    body = relay.subtract(a, b)
    assert not structural_equal(relay.Function([a, b], body), relay.Function([b, a], body))


def test_constants_count_by_bits() -> None:
    def of(value: float) -> str:
        return structural_hash(relay.exp(relay.const(np.full(3, value, "float32"))))

    assert of(0.0) != of(-0.0) and of(1.0) == of(1.0)


def test_hash_is_the_same_in_another_process() -> None:
    code = (
        "from tilewright import relay; from tilewright.relay.ir.structural import structural_hash;"
        "x = relay.var('x', shape=(2, 3)); y = relay.nn.softmax(relay.multiply(x, 2.0), axis=1);"
        "print(structural_hash(relay.Function([x], relay.add(y, x))))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == structural_hash(_function())


def test_inferred_types_of_bindings_do_not_count() -> None:
    text = "def @main(%x: float32) -> float32 { let %y = exp(%x); match ((%y, %x)) { (%a, _) => %a } }"
    assert relay.structural_equal(relay.parse(text), relay.transform.infer_type(relay.parse(text)))
