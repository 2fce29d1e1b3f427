"""Attributes are declared once: builders, the text format and JSON take the same names, kinds and defaults."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import relay
from tilewright.errors import ModelError, ParseError, TypeMismatchError
from tilewright.relay import op as builders
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir import registry
from tilewright.relay.transform.partition.external import find_external

#: What foreign models and code generators call, with whatever attributes those have.
_FREE = ("onnx.", "external.", "vta.")
NAMES = [name for name in registry.names() if not name.startswith(_FREE)]
#: Parameters of builders that are attributes of another name, or from which one is computed.
COMPUTED = {"arange": {"start", "stop"}}


def builder(name: str) -> Callable[..., Any] | None:
    """`relay.op.nn.relu` for "nn.relu"."""
    found: Any = builders
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if inspect.isfunction(found) else None


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_of_the_kind_they_have(name: str) -> None:
    schema = registry.get(name).attributes
    assert schema is not None, f"{name} declares no attributes"
    for attribute, declared in schema.items():
        if not declared.is_required and declared.default is not attr.ABSENT:
            assert declared.take(declared.default) == declared.default, f"{name}: {attribute}"


@pytest.mark.parametrize("name", [name for name in NAMES if builder(name)])
def test_builders_have_the_same_defaults(name: str) -> None:
    schema, build = registry.get(name).attributes, builder(name)
    assert schema is not None and build is not None
    for parameter in inspect.signature(build).parameters.values():
        if parameter.name not in schema or parameter.name in COMPUTED.get(name, ()):
            continue
        declared = schema[parameter.name]
        if parameter.default is inspect.Parameter.empty:
            assert declared.is_required, f"{name}: {parameter.name} has a default, but the builder needs it"
        elif not declared.is_required:
            assert declared.take(parameter.default) == declared.default, f"{name}: {parameter.name}"


def test_only_operators_of_foreign_models_take_any_attribute() -> None:
    assert find_external("host").supported
    free = {name for name in registry.names() if registry.get(name).attributes is None}
    assert "external.host" in free
    assert free == {name for name in free if name.startswith(_FREE)}


TEXT = '#[version = "0.0.5"]\nfn (%x: Tensor[(1, 2, 8, 8), float32]) {{\n  {call}\n}}'


@pytest.mark.parametrize(
    "call,message",
    [
        ("nn.max_pool2d(%x, pool_sizes=[2, 2])", r"max_pool2d has no attribute 'pool_sizes'; did you mean 'pool_size'"),
        ("nn.relu(%x, axis=1)", r"nn.relu has no attribute 'axis'; it has none"),
        ('nn.softmax(%x, axis="last")', r"nn.softmax: the attribute 'axis' is an integer, not 'last'"),
        ("nn.max_pool2d(%x, pool_size=2, strides=[1, 2, 3])", r"'strides' is 2 integers, or one for all"),
        ('cast(%x, dtype="float33")', r"'dtype' is an element type such as \"float32\", not 'float33'"),
        ("nn.group_norm(%x, %x, %x)", r"nn.group_norm needs the attribute 'num_groups', an integer"),
    ],
)  # fmt: skip
def test_an_attribute_that_does_not_fit_is_one_error_in_text(call: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        relay.parse_expr(TEXT.format(call=call))


def test_what_text_leaves_out_has_its_default() -> None:
    func = relay.parse_expr(TEXT.format(call="nn.max_pool2d(%x, pool_size=[2, 2], padding=[1, 0])"))
    attrs = func.body.attrs  # type: ignore[attr-defined]
    wanted = relay.nn.max_pool2d(relay.var("x"), (2, 2), padding=(1, 0)).attrs
    assert attrs == wanted and attrs.padding == (1, 0, 1, 0) and attrs.ceil_mode is False


def test_an_attribute_that_does_not_fit_is_one_error_in_json() -> None:
    x = relay.var("x", shape=(2, 3))
    text = relay.save_json(relay.nn.softmax(x))
    content = json.loads(text)
    node = next(node for node in content["nodes"] if node["type_key"] == "relay.attrs.SoftmaxAttrs")
    node["type_key"], node["attrs"] = "relay.attrs.ClipAttrs", {"a_min": "0", "a_max": "1"}
    with pytest.raises(
        ModelError, match=r"a relay.Call: nn.softmax has no attribute 'a_m..'; (did you mean|there are).*axis"
    ):
        relay.load_json(json.dumps(content))


def test_a_classic_attribute_that_matters_is_not_dropped() -> None:
    x = relay.var("x", shape=(1, 2, 4, 4))
    vectors = [relay.const(np.ones(2, "float32")) for _ in range(4)]
    content = json.loads(relay.save_json(relay.nn.batch_norm(x, *vectors)))
    node = next(node for node in content["nodes"] if node["type_key"] == "relay.attrs.BatchNormAttrs")
    assert relay.load_json(json.dumps(content)).attrs.axis == 1
    node["attrs"]["scale"] = "0"
    with pytest.raises(ModelError, match=r"nn\.batch_norm has no attribute 'scale'"):
        relay.load_json(json.dumps(content))


def test_what_only_a_pass_decides_is_absent_until_then() -> None:
    x, w = relay.var("x", shape=(1, 2, 8, 8)), relay.var("w", shape=(4, 2, 3, 3))
    call = relay.nn.conv2d(x, w)
    assert "schedule" not in call.attrs
    assert attr.complete("nn.conv2d", call.op.attributes, {"schedule": (("rows", 4),)})["schedule"] == (("rows", 4),)  # type: ignore[union-attr]


def test_builders_refuse_what_does_not_fit() -> None:
    x = relay.var("x", shape=(1, 2, 8, 8))
    with pytest.raises(TypeMismatchError, match="the attribute 'layout' is a string, not 3"):
        relay.nn.max_pool2d(x, layout=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "declared,given,taken",
    [
        (attr.integer(), np.int64(3), 3),
        (attr.flag(), 1, True),
        (attr.number(), np.float32(0.5), 0.5),
        (attr.sides(2), 1, (1, 1, 1, 1)),
        (attr.per_axis(3), [2], (2, 2, 2)),
        (attr.pairs(), [[1, 2]], ((1, 2),)),
        (attr.optional(attr.integers()), None, None),
        (attr.dtype(), np.float16, "float16"),
    ],
)
def test_values_are_brought_into_one_form(declared: attr.Attribute, given: object, taken: object) -> None:
    assert declared.take(given) == taken


@pytest.mark.parametrize(
    "declared,given",
    [
        (attr.integer(), True),
        (attr.integer(), 1.0),
        (attr.flag(), 2),
        (attr.number(), "1"),
        (attr.text(), 1),
        (attr.integers(2), (1, 2, 3)),
        (attr.integers(), "12"),
        (attr.sides(2), (1, 2, 3)),
        (attr.axes(), "all"),
    ],
)
def test_values_of_another_kind_are_refused(declared: attr.Attribute, given: object) -> None:
    with pytest.raises(TypeMismatchError, match="the attribute 'it' is "):
        attr.complete("op", {"it": declared}, {"it": given})
