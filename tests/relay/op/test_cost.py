"""Operations and bytes of calls, against figures worked out by hand."""

from __future__ import annotations

import numpy as np

from tests.onnx_models import convolution
from tilewright import relay, te
from tilewright.driver.optimize import optimize
from tilewright.frontend.formats.import_model import import_model
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.visitor import calls
from tilewright.relay.op.cost import flops, moved_bytes
from tilewright.target import Target


def var(name: str, *shape: int) -> Var:
    return Var(name, TensorType(shape))


def cost(body: Expr, *params: Var) -> int:
    """Operations of the last call of `body`, typed."""
    typed = infer_type(IRModule.from_expr(Function(list(params), body)))["main"].body
    assert isinstance(typed, Call)
    return flops(typed)


def test_a_convolution_counts_two_for_each_multiply_add() -> None:
    data, kernel = var("x", 1, 3, 224, 224), var("w", 64, 3, 7, 7)
    body = relay.op.nn.conv2d(data, kernel, strides=2, padding=3)
    assert cost(body, data, kernel) == 2 * 64 * 112 * 112 * 3 * 49


def test_depthwise_and_grouped_convolutions_reach_one_group_only() -> None:
    data, kernel = var("x", 1, 32, 14, 14), var("w", 32, 1, 3, 3)
    body = relay.op.nn.conv2d(data, kernel, padding=1, groups=32)
    assert cost(body, data, kernel) == 2 * 32 * 14 * 14 * 9


def test_a_blocked_kernel_costs_the_same() -> None:
    data, kernel = var("x", 1, 2, 14, 14, 16), var("w", 4, 2, 3, 3, 16, 16)
    attrs = {"data_layout": "NCHW16c", "kernel_layout": "OIHW16i16o", "out_layout": "NCHW16c"}
    assert cost(relay.op.nn.conv2d(data, kernel, padding=1, **attrs), data, kernel) == 2 * 64 * 14 * 14 * 32 * 9


def test_a_transposed_convolution_is_counted_by_its_data() -> None:
    data, kernel = var("x", 1, 8, 5, 5), var("w", 8, 4, 2, 2)
    body = relay.op.nn.conv2d_transpose(data, kernel, strides=2)
    assert cost(body, data, kernel) == 2 * 8 * 5 * 5 * 4 * 2 * 2


def test_products_cost_two_operations_a_term() -> None:
    data, weight = var("x", 3, 7, 20), var("w", 11, 20)
    assert cost(relay.op.nn.dense(data, weight), data, weight) == 2 * 3 * 7 * 11 * 20
    a, b = var("a", 4, 5, 6), var("b", 4, 7, 6)
    assert cost(relay.op.nn.batch_matmul(a, b), a, b) == 2 * 4 * 5 * 7 * 6
    turned = var("a", 4, 6, 5)
    assert cost(relay.op.nn.batch_matmul(turned, b, transpose_a=True), turned, b) == 2 * 4 * 5 * 7 * 6
    q, k, v = (relay.var(name, shape=(1, 2, size, 8)) for name, size in (("q", 5), ("k", 7), ("v", 7)))
    assert cost(relay.op.nn.attention(q, k, v), q, k, v) == 2 * 2 * 5 * 7 * (8 + 8)
    gates, weight, state = var("g", 3, 2, 60), var("w", 1, 60, 20), var("h", 1, 2, 20)
    assert cost(relay.op.nn.gru(gates, weight, state), gates, weight, state) == 2 * 3 * 2 * 60 * 20


def test_elementwise_reducing_and_moving() -> None:
    x = var("x", 2, 3, 4)
    assert cost(relay.op.nn.relu(x), x) == 24
    assert cost(relay.add(x, Constant(np.ones((4,), np.float32))), x) == 24
    assert cost(relay.op.sum(x, axis=2), x) == 24
    assert cost(relay.op.reshape(x, (6, 4)), x) == 0


def test_symbolic_sizes_are_compared_by_their_hints() -> None:
    """As `max` would, which has no truth value of two expressions."""
    n, m = te.size_var("n", "int32"), te.size_var("m", "int32")
    data = Var("x", TensorType((n, m)))
    gamma, beta = Var("gamma", TensorType((m,))), Var("beta", TensorType((m,)))
    body = relay.op.nn.layer_norm(data, gamma, beta)
    assert str(cost(body, data, gamma, beta)) == str(n * m)


def test_a_fused_kernel_adds_up_its_operators_and_its_traffic() -> None:
    fused = optimize(import_model(convolution(), None), Target("llvm -mcpu=skylake-avx512 -mtriple=x86_64-linux-gnu"))
    first = calls(fused["main"].body)[0]
    assert flops(first) == 2 * 16 * 144 * 27 + 16 * 144
    assert moved_bytes(first) == 4 * (3 * 144 + 16 * 27 + 16 * 144)
