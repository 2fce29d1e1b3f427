"""Device placement: copies stand exactly where values change devices."""

import pytest

from tests.relay.helpers import assert_same, module, op_names
from tilewright import relay
from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.memory.plan_devices import plan_devices


def _copies(mod: relay.IRModule) -> list[tuple[str, str]]:
    found = [call for call in calls(mod["main"].body) if call.op.name == "device_copy"]  # type: ignore[union-attr]
    return [(call.attrs.src_device, call.attrs.dst_device) for call in found]


def test_values_move_to_the_device_and_back() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    mod = module(relay.add(relay.on_device(relay.exp(x), "cuda(0)"), y))
    after = plan_devices(mod)
    assert op_names(after) == ["device_copy", "exp", "device_copy", "add"]
    assert _copies(after) == [("cpu(0)", "cuda(0)"), ("cuda(0)", "cpu(0)")]
    assert_same(mod, after)


def test_neighbours_follow_and_a_value_is_copied_once() -> None:
    x = relay.var("x", shape=(2,))
    inner = relay.exp(relay.tanh(relay.sqrt(x)))
    there = relay.on_device(inner, "cuda(0)")
    mod = module(relay.add(relay.negative(there), relay.log(there)))
    after = plan_devices(mod)
    assert _copies(after) == [("cpu(0)", "cuda(0)"), ("cuda(0)", "cpu(0)")]
    assert op_names(after)[:5] == ["device_copy", "sqrt", "tanh", "exp", "device_copy"]
    assert_same(mod, after)


def test_no_copy_where_both_sides_are_on_one_device() -> None:
    x = relay.var("x", shape=(2,))
    first = relay.on_device(relay.exp(x), "cuda(0)")
    mod = module(relay.on_device(relay.log(first), "cuda(0)"))
    assert _copies(plan_devices(mod)) == [("cpu(0)", "cuda(0)")]
    assert _copies(plan_devices(mod, default_device="cuda(0)")) == []


def test_without_annotations_nothing_changes() -> None:
    mod = module(relay.exp(relay.var("x", shape=(2,))))
    assert plan_devices(mod) is mod


def test_one_value_on_two_devices_is_an_error() -> None:
    x = relay.var("x", shape=(2,))
    value = relay.exp(x)
    mod = module(relay.Tuple([relay.on_device(value, "cuda(0)"), relay.on_device(value, "cpu(0)")]))
    with pytest.raises(TypeMismatchError, match=r"exp is annotated for both cpu\(0\) and cuda\(0\)"):
        plan_devices(mod)
