"""Helpers that the Relay tests share: random constants, a small network, and evaluation by a memory plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import relay
from tilewright.relay.interpreter.interpreter import Value, flatten
from tilewright.relay.ir.call_reference import call_reference
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.type import TensorType, tensor_types
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.transform.memory.plan_memory import MemoryPlan, Storage, Where

Array = np.ndarray[Any, Any]

FORMATS = Path(__file__).resolve().parents[2].parent / "shared" / "formats"


def shared_format(name: str) -> str:
    """A sample file that the classic stack wrote; skips the test where it is not there."""
    if not (FORMATS / name).exists():
        pytest.skip(f"{FORMATS / name} is not there")
    return (FORMATS / name).read_text()


def rand(*shape: int, seed: int = 0) -> Array:
    """Standard normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def weights(*shape: int, seed: int = 0) -> relay.Constant:
    """A constant of small random numbers."""
    return relay.const(rand(*shape, seed=seed) * np.float32(0.3))


def module(body: relay.Expr) -> relay.IRModule:
    """A typed module that returns `body`, its free variables the parameters."""
    return infer_type(relay.IRModule.from_expr(body))


def feed(mod: relay.IRModule, seed: int = 1) -> list[Array]:
    """Random values for the parameters of `main`."""
    rng = np.random.default_rng(seed)
    types = [param.checked_type for param in mod["main"].params]
    return [rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in types if isinstance(t, TensorType)]


def assert_same(before: relay.IRModule, after: relay.IRModule, rtol: float = 1e-5, seed: int = 1) -> None:
    """Both modules have the same types and give the same results on random inputs."""
    inputs = feed(before, seed)
    expected, got = relay.interpret(before, inputs), relay.interpret(after, inputs)
    assert before["main"].checked_type == after["main"].checked_type
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=rtol, atol=rtol * max(1.0, float(np.abs(a).max(initial=0))))


def op_names(mod: relay.IRModule) -> list[str]:
    """Names of the operators that `main` calls, in order, those inside fused functions included."""
    names: list[str] = []
    for node in post_order(mod["main"].body):
        if isinstance(node, relay.Call):
            inner = post_order(node.op.body) if isinstance(node.op, relay.Function) else [node]
            names += [call.op.name for call in inner if isinstance(call, relay.Call)]
    return names


def small_cnn() -> relay.IRModule:
    """Convolutions with batch norm, a residual, a depthwise one, squeeze-and-excite, concatenation and a classifier."""
    seed = iter(range(1000))

    def conv(x: relay.Expr, cin: int, cout: int, kernel: int = 3, groups: int = 1, norm: bool = True) -> relay.Expr:
        w = weights(cout, cin // groups, kernel, kernel, seed=next(seed))
        y: relay.Expr = relay.nn.conv2d(x, w, padding=(kernel // 2,) * 4, groups=groups)
        if not norm:
            return relay.nn.bias_add(y, weights(cout, seed=next(seed)))
        stats = [weights(cout, seed=next(seed)) for _ in range(3)]
        var = relay.const(np.abs(rand(cout, seed=next(seed))) + np.float32(0.5))
        return relay.nn.batch_norm(y, *stats, var)[0]

    x = relay.var("x", shape=(1, 3, 8, 8))
    stem = relay.nn.relu(conv(x, 3, 16))
    branch = conv(relay.nn.relu(conv(stem, 16, 16)), 16, 16)
    body = relay.nn.relu(relay.add(stem, branch))
    deep = relay.nn.relu(conv(body, 16, 16, groups=16))
    gate = relay.nn.relu(conv(relay.nn.global_avg_pool2d(deep), 16, 8, 1, norm=False))
    gate = relay.sigmoid(conv(gate, 8, 16, 1, norm=False))
    joined = relay.concatenate([body, relay.multiply(deep, gate)], axis=1)
    pooled = relay.nn.max_pool2d(joined, (2, 2), strides=(2, 2))
    last = relay.nn.relu(conv(pooled, 32, 24, 1))
    flat = relay.mean(last, axis=(2, 3))
    return module(relay.nn.softmax(relay.nn.bias_add(relay.nn.dense(flat, weights(10, 24)), weights(10))))


def run_plan(mod: relay.IRModule, plan: MemoryPlan, inputs: list[Array]) -> list[Array]:
    """Evaluate a fused module the way the runtime does: every kernel reads and writes the positions its plan names."""
    arena = np.full(plan.arena_bytes, 0xA5, np.uint8)
    types = tensor_types(mod["main"].body.checked_type)
    outputs = [np.empty(t.nbytes, np.uint8) for t in types]
    constants = [np.ascontiguousarray(constant.data) for constant in plan.constants]

    def memory(position: Storage) -> Array:
        if position.where is Where.ARENA:
            return arena[position.position : position.position + position.nbytes]
        if position.where is Where.OUTPUT:
            return outputs[position.position]
        source = inputs if position.where is Where.INPUT else constants
        return np.ascontiguousarray(source[position.position]).reshape(-1).view(np.uint8)

    for call in plan.order:
        assert isinstance(call.op, relay.Function)
        env: dict[relay.Expr, Value] = {}
        for param, arg in zip(call.op.params, call.args, strict=True):
            type_ = param.checked_type
            assert isinstance(type_, TensorType)
            (position,) = plan.storage[arg]
            env[param] = memory(position).copy().view(type_.dtype.numpy).reshape(type_.shape)
        result = _evaluate(call.op.body, env)
        for position, value in zip(plan.storage[call], flatten(result), strict=True):
            memory(position)[:] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    for source, index in plan.copies:
        outputs[index][:] = memory(source)
    return [raw.view(t.dtype.numpy).reshape(t.shape) for raw, t in zip(outputs, types, strict=True)]


def _evaluate(body: relay.Expr, env: dict[relay.Expr, Value]) -> Value:
    for node in post_order(body):
        if node in env:
            continue
        if isinstance(node, relay.Constant):
            env[node] = node.data
        elif isinstance(node, relay.Tuple):
            env[node] = tuple(env[field] for field in node.fields)
        elif isinstance(node, relay.TupleGetItem):
            env[node] = env[node.tuple_value][node.index]
        else:
            assert isinstance(node, relay.Call)
            env[node] = call_reference(node, [env[arg] for arg in node.args])
    return env[body]
