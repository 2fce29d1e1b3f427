"""Node JSON: what is written is read back, and the classic sample is reproduced to the byte of its content."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.relay.helpers import shared_format, small_cnn
from tests.relay.programs import Programs
from tilewright import relay
from tilewright.errors import InputError, ModelError
from tilewright.relay.ir.json import load_json, save_json
from tilewright.relay.ir.printer import astext
from tilewright.relay.ir.structural import structural_equal


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_random_programs_survive_json(random: Random) -> None:
    mod = Programs(random).module()
    again = load_json(save_json(mod))
    assert structural_equal(mod, again) and astext(again) == astext(mod)
    assert save_json(again) == save_json(mod)


def test_the_classic_sample_is_read_and_written_as_it_was() -> None:
    text = shared_format("relay.node.json")
    mod = load_json(text)
    assert isinstance(mod, relay.IRModule)
    assert structural_equal(mod, relay.fromtext(shared_format("relay.txt")))
    assert json.loads(save_json(mod)) == json.loads(text)


def test_a_network_with_weights_and_spans() -> None:
    mod = small_cnn()
    assert structural_equal(mod, load_json(save_json(mod)))
    x = relay.var("x", shape=(2,))
    call = relay.Call(relay.exp(x).op, [x], span="Exp_1;Exp_2")
    assert load_json(save_json(call)).span == "Exp_1;Exp_2"


def test_classic_attributes_are_written_where_nothing_is_lost() -> None:
    x, w = relay.var("x", shape=(1, 32, 8, 8)), relay.var("w", shape=(8, 32, 3, 3))
    plain, text = relay.nn.conv2d(x, w, channels=8, kernel_size=(3, 3), padding=(1, 1, 1, 1)), "relay.attrs.Conv2DAttrs"
    assert text in save_json(plain)
    assert structural_equal(plain, load_json(save_json(plain)))
    packed = relay.nn.dense(relay.var("d", shape=(1, 4)), relay.var("p", shape=(1, 4, 32)), weight_layout="NC32n")
    assert "DictAttrs" in save_json(packed) and "DenseAttrs" not in save_json(packed)
    assert structural_equal(packed, load_json(save_json(packed)))


def test_depth_is_no_limit() -> None:
    node: relay.Expr = relay.var("x", shape=(2,))
    for _ in range(3000):
        node = relay.exp(node)
    assert structural_equal(node, load_json(save_json(node)))


def test_types_survive_the_json() -> None:
    a = relay.TypeVar("A")
    type_ = relay.FuncType([a, relay.RefType(relay.TupleType([]))], relay.TensorType((relay.Any(), 3), "int4"), [a])
    assert load_json(save_json(type_)) == type_


def broken(**changes: object) -> str:
    """A file of one node, changed."""
    content = {"root": 1, "nodes": [{"type_key": ""}, {"type_key": "Array"}], "b64ndarrays": []}
    return json.dumps({**content, **changes})


@pytest.mark.parametrize(
    "text, message",
    [
        ("no JSON", "this is no node JSON"),
        ("{}", "this is no node JSON"),
        (broken(root=7), "the JSON names node 7; it has 2"),
        (
            broken(nodes=[{"type_key": ""}, {"type_key": "relay.Mystery"}]),
            "nodes of class 'relay.Mystery' are not known",
        ),
        (broken(nodes=[{"type_key": ""}, {"type_key": "relay.attrs.Odd"}]), "attributes of class relay.attrs.Odd"),
        (broken(nodes=[{"type_key": ""}, {"type_key": "Array", "data": [1]}]), "node 1 of the JSON contains itself"),
        (broken(nodes=[{"type_key": ""}, {"type_key": "relay.Tuple", "attrs": {}}]), "a relay.Tuple, is malformed"),
        (broken(b64ndarrays=["AAAA"]), "this is no node JSON: the array is truncated"),
    ],
)
def test_damaged_json_is_a_model_error(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_json(text)


def test_strings_are_not_written() -> None:
    with pytest.raises(InputError, match="an array file holds numbers, not arrays of string"):
        save_json(relay.Constant(np.asarray(["a"], object)))
