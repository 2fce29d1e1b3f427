"""Products around a softmax become one attention, and stay apart where they must."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.helpers import assert_same, module, op_names
from tilewright import relay, te
from tilewright.backend import backend_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform import fuse_attention, fuse_ops, infer_type
from tilewright.target import Target

B, H, M, N, D = 2, 3, 10, 12, 8
RULES = backend_of(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")).rules()


def _heads(rows: int) -> list[relay.Expr]:
    return [relay.var(name, shape=(B * H, size, D)) for name, size in (("q", rows), ("k", N), ("v", N))]


def _attention(rows: int = M, *, transpose_b: bool = True, scores_as: object = None) -> relay.Expr:
    """The graph as an importer leaves it; `scores_as` maps the scores, [B, H, M, N], to what the softmax reads."""
    query, key, value = _heads(rows)
    key = key if transpose_b else relay.transpose(key, (0, 2, 1))
    scores = relay.reshape(relay.nn.batch_matmul(query, key, transpose_b=transpose_b), (B, H, rows, N))
    scores = scores_as(scores) if callable(scores_as) else scores
    weights = relay.reshape(relay.nn.softmax(scores, axis=-1), (B * H, rows, N))
    return relay.nn.batch_matmul(weights, value, transpose_b=False)


def _fused(result: relay.Expr) -> relay.IRModule:
    before = module(result)
    after = fuse_attention(before, RULES)
    assert_same(before, after)
    return after


def _call(mod: relay.IRModule) -> relay.Call:
    (found,) = [call for call in calls(mod["main"].body) if call.op.name == "nn.attention"]
    return found


@pytest.mark.parametrize("transpose_b", [True, False])
def test_products_around_a_softmax(transpose_b: bool) -> None:
    mod = _fused(_attention(transpose_b=transpose_b))
    assert "nn.softmax" not in op_names(mod) and "nn.batch_matmul" not in op_names(mod)
    assert _call(mod).attrs["scale"] == 1.0


def test_scale_and_mask() -> None:
    mask = relay.var("mask", shape=(B, 1, 1, N))
    mod = _fused(_attention(scores_as=lambda s: relay.add(relay.divide(s, 4.0), mask)))
    found = _call(mod)
    assert found.attrs["scale"] == 0.25 and len(found.args) == 4


@pytest.mark.parametrize("factors", [(0.5,), (1.0,), (2.0, 0.5)])
@pytest.mark.parametrize("shape, axes", [((B * H, D, M), (0, 2, 1)), ((B, M, H, D), (0, 2, 1, 3))])
def test_factors_leave_the_views_around_them(
    factors: tuple[float, ...], shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    """Also where they make 1, as the usual scale of heads of depth 1 does."""
    _, key, value = _heads(M)
    query = relay.var("q", shape=shape)
    for factor in factors:
        query = relay.multiply(query, factor)
    stack = relay.reshape(relay.transpose(query, axes), (B * H, M, D))
    weights = relay.nn.softmax(relay.nn.batch_matmul(stack, key), axis=-1)
    mod = _fused(relay.nn.batch_matmul(weights, value, transpose_b=False))
    assert _call(mod).attrs["scale"] == np.prod(factors)


def test_scores_hidden_by_where_fuse_with_their_scale() -> None:
    seen = relay.const(np.tri(M, N, dtype=bool))
    lowest = float(np.finfo("float32").min)
    mod = _fused(_attention(scores_as=lambda s: relay.where(seen, relay.multiply(s, 0.5), lowest)))
    assert _call(mod).attrs["scale"] == 0.5


def test_rows_before_heads_become_the_layout() -> None:
    apart = relay.reshape(_attention(), (B, H, M, D))
    mod = _fused(relay.reshape(relay.transpose(apart, (0, 2, 1, 3)), (B, M, H * D)))
    assert _call(mod).attrs["out_layout"] == "BSHD" and "transpose" not in op_names(mod)


@pytest.mark.parametrize(
    "scores_as",
    [
        lambda s: relay.nn.relu(s),
        lambda s: relay.where(relay.const(np.tri(M, N, dtype=bool)), s, -1000.0),
        lambda s: relay.multiply(relay.add(s, relay.var("mask", shape=(1, 1, M, N))), 2.0),
    ],
    ids=["other operator", "moderate fill", "scale after the mask"],
)
def test_others_stay_apart(scores_as: object) -> None:
    assert "nn.attention" not in op_names(_fused(_attention(scores_as=scores_as)))


@pytest.mark.parametrize("heads", [4, te.size_var("batch", "int32") * 4], ids=["known heads", "symbolic batch"])
def test_lengths_unknown_at_compile_time(heads: Any) -> None:
    length, depth = te.size_var("length", "int32"), te.size_var("depth", "int32")
    for width, fused in ((16, True), (depth, False)):
        query, key, value = (relay.var(name, shape=(heads, length, width)) for name in "qkv")
        weights = relay.nn.softmax(relay.nn.batch_matmul(query, key), axis=-1)
        mod = module(relay.nn.batch_matmul(weights, value, transpose_b=False))
        assert ("nn.attention" in str(fuse_attention(mod, RULES))) == fused


def test_few_rows_stay_apart() -> None:
    assert "nn.attention" not in op_names(_fused(_attention(rows=4)))


def test_scores_that_are_a_result_stay_apart() -> None:
    product = _attention()
    (softmax,) = [call for call in calls(product) if call.op.name == "nn.softmax"]
    assert "nn.attention" not in op_names(_fused(relay.Tuple([product, softmax])))


def test_what_moves_the_operands_joins_the_kernel() -> None:
    data = relay.var("x", shape=(1, M, 3, H, D))
    moved = relay.transpose(data, (2, 0, 3, 1, 4))
    query, key, value = (
        relay.reshape(relay.strided_slice(moved, (i,), (i + 1,), axes=(0,)), (H, M, D)) for i in range(3)
    )
    weights = relay.nn.softmax(relay.nn.batch_matmul(query, key), axis=-1)
    before = module(relay.nn.batch_matmul(weights, value, transpose_b=False))
    after = infer_type(fuse_ops(fuse_attention(before, RULES)))
    assert_same(before, after)
    kernels = [call for call in calls(after["main"].body) if "nn.attention" in op_names(module(call.op.body))]
    assert len(kernels) == 1 and kernels[0].args == after["main"].params


def test_how_few_rows_stay_apart_depends_on_the_machine() -> None:
    """More rows have to share the copy of the keys where it is dear beside arithmetic."""
    before = module(_attention(rows=7))
    assert "nn.attention" not in op_names(fuse_attention(before, RULES))
    narrow = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72")
    assert "nn.attention" in op_names(fuse_attention(before, backend_of(narrow).rules()))
