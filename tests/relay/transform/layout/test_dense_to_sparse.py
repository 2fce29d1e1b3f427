"""Weights that are mostly zeros, in blocks."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import assert_same, module, op_names, rand
from tilewright import relay
from tilewright.errors import InputError
from tilewright.relay.transform.layout.dense_to_sparse import dense_to_sparse


def _dense(kept: float, block: tuple[int, int] = (16, 1)) -> relay.IRModule:
    """A product with weights [64, 48] of which the share `kept` of the blocks is not zero."""
    there = np.random.default_rng(1).random((64 // block[0], 48 // block[1])) < kept
    weight = rand(64, 48) * there.repeat(block[0], 0).repeat(block[1], 1)
    return module(relay.nn.relu(relay.nn.dense(relay.var("x", shape=(5, 48)), relay.const(weight.astype("float32")))))


@pytest.mark.parametrize("block", [(16, 1), (4, 4), (1, 1)])
def test_sparse_weights_lose_their_zeros(block: tuple[int, int]) -> None:
    mod = _dense(0.1, block)
    after = dense_to_sparse(mod, block)
    assert op_names(after) == ["nn.sparse_dense", "nn.relu"]
    held = [n.data for n in relay.visitor.post_order(after["main"].body) if isinstance(n, relay.Constant)]
    assert sum(data.nbytes for data in held) < 64 * 48 * 4 / 3
    assert_same(mod, after)
    expected = relay.interpret(mod, [rand(5, 48)])[0]
    np.testing.assert_allclose(tw.compile(after)(rand(5, 48)), expected, rtol=1e-4, atol=1e-5)


def test_dense_weights_above_the_threshold_stay() -> None:
    assert op_names(dense_to_sparse(_dense(0.5))) == ["nn.dense", "nn.relu"]
    assert op_names(dense_to_sparse(_dense(0.5), sparsity_threshold=0.3)) == ["nn.sparse_dense", "nn.relu"]
    assert op_names(dense_to_sparse(_dense(0.1), (5, 5))) == ["nn.dense", "nn.relu"]
    with pytest.raises(InputError, match="a block of 0x1 holds nothing"):
        dense_to_sparse(_dense(0.1), (0, 1))
