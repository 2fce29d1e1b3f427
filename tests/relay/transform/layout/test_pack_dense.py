"""Weights of products are packed in panels, which zeros fill where they do not divide the units."""

from __future__ import annotations

import numpy as np
import pytest

from tests.relay.helpers import module, op_names, rand
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.driver.model.build import build_model
from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.transform.layout.pack_dense import pack_dense
from tilewright.relay.transform.simplify.fold_constant import fold_constant
from tilewright.target import Target

TARGET = Target("llvm -mcpu=skylake-avx512 -cores=1")


def _constants(mod: relay.IRModule) -> list[np.ndarray]:
    return [node.data for node in post_order(mod["main"].body) if isinstance(node, relay.Constant)]


@pytest.mark.parametrize("units", [17, 49, 1001])
def test_columns_that_are_no_whole_vectors_are_filled_up(units: int) -> None:
    weight = rand(units, 24)
    mod = module(relay.nn.dense(relay.var("x", shape=(64, 24)), relay.const(weight)))
    (panels,) = _constants(fold_constant(pack_dense(mod, backend_of(TARGET))))
    assert panels.ndim == 3 and panels.shape[-1] % 16 == 0
    assert panels.size > weight.size and np.count_nonzero(panels) == np.count_nonzero(weight)
    x = rand(64, 24, seed=1)
    np.testing.assert_allclose(build_model(mod, Target("cpu"), threads=1)(x), x @ weight.T, rtol=1e-4, atol=1e-4)


def test_a_large_weight_is_filled_up_once_and_before_it_runs() -> None:
    """Folding leaves what grows beyond its limit to the run: zeros are part of the constant."""
    weight, x = relay.const(rand(1501, 256)), relay.var("x", shape=(64, 256))
    both = relay.add(relay.nn.dense(x, weight), relay.nn.dense(relay.nn.relu(x), weight))
    packed = fold_constant(pack_dense(module(both), backend_of(TARGET)))
    assert all(data.ndim == 3 for data in _constants(packed))
    assert {"layout_transform", "nn.pad"}.isdisjoint(op_names(packed))


def test_units_end_in_the_last_panel() -> None:
    x, weight = relay.var("x", shape=(4, 8)), relay.var("w", shape=(3, 8, 16))
    for units in (48, 33):
        body = relay.nn.dense(x, weight, units=units, weight_layout="NC16n")
        assert module(body)["main"].body.checked_type.shape == (4, units)
    for units in (32, 49):
        with pytest.raises(TypeMismatchError, match="room for 48"):
            module(relay.nn.dense(x, weight, units=units, weight_layout="NC16n"))
