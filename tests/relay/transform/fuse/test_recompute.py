"""Cheap values computed in each kernel that reads them."""

from __future__ import annotations

import numpy as np

from tilewright import relay
from tilewright.relay import op
from tilewright.relay.ir.expr import Call, Expr, Function, Tuple, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.transform.fuse.recompute import recompute


def counts(params: list[Var], body: Expr) -> tuple[dict[str, int], IRModule, IRModule]:
    """The number of calls of each operator after the pass, the module before and after it."""
    before = IRModule.from_expr(Function(params, body))
    after = recompute(before)
    found: dict[str, int] = {}
    for node in post_order(after["main"].body):
        if isinstance(node, Call):
            found[node.op.name] = found.get(node.op.name, 0) + 1
    return found, before, after


def test_a_sum_and_an_elementwise_reader_get_a_copy_each_with_what_leads_to_it() -> None:
    """The normalization of a batch: centred values are subtracted twice rather than stored."""
    x, m = Var("x", TensorType((4, 8, 6, 6))), Var("m", TensorType((1, 8, 1, 1)))
    centred = op.subtract(op.negative(x), m)
    square = op.mean(op.multiply(centred, centred), axis=(0, 2, 3), keepdims=True)
    found, before, after = counts([x, m], op.multiply(centred, op.rsqrt(square)))
    assert found["subtract"] == found["negative"] == 2
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype("float32") for shape in ((4, 8, 6, 6), (1, 8, 1, 1))]
    np.testing.assert_array_equal(*[np.asarray(relay.interpret(mod, values)) for mod in (before, after)])


def test_readers_that_meet_in_one_kernel_share_the_value() -> None:
    x = Var("x", TensorType((4, 64)))
    y = op.add(x, x)
    assert counts([x], op.multiply(op.negative(y), y))[0]["add"] == 1


def test_costly_values_results_and_epilogues_of_products_are_stored() -> None:
    x, w = Var("x", TensorType((4, 64))), Var("w", TensorType((64, 64)))
    for y in (op.exp(x), op.nn.relu(op.nn.dense(x, w))):
        found, _, _ = counts([x, w], Tuple([op.sum(y, axis=1), op.negative(y)]))
        assert found.get("exp", 1) == found.get("nn.relu", 1) == 1
    z = op.nn.dense(x, w)
    swish = op.multiply(z, op.sigmoid(z))
    assert counts([x, w], Tuple([op.sum(swish, axis=1), op.negative(swish)]))[0]["multiply"] == 1
    y = op.negative(x)
    assert counts([x], Tuple([y, op.sum(y, axis=1), op.abs(y)]))[0]["negative"] == 1


def test_values_of_many_operands_with_many_readers_are_stored() -> None:
    parts = [Var(f"x{k}", TensorType((4, 64))) for k in range(4)]
    y = op.where(op.greater(parts[0], parts[1]), parts[2], parts[3])
    readers = [op.sum(y, axis=1), op.max(y, axis=1), op.min(y, axis=1), op.abs(y)]
    assert counts(parts, Tuple(readers))[0]["where"] == 1
