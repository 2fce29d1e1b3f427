"""Reductions and rows as a template: spaces, the rule as default, and configurations that compute what NumPy does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.autotvm.task.task import KernelTask
from tilewright.backend import backend_of
from tilewright.driver.lower import lower_function
from tilewright.relay.ir.expr import Expr
from tilewright.target import Target


def _task(body: Callable[[Expr], Expr], shape: tuple[int, ...], target: str = "opencl") -> KernelTask:
    x = relay.var("x", shape=shape)
    (task,) = extract_from_program(relay.IRModule.from_expr(relay.Function([x], body(x))), target)
    return task


@pytest.mark.parametrize(
    ("body", "shape", "threads"),
    [
        (lambda x: relay.sum(x, axis=1), (3, 1000), 32),  # few elements: a warp for each
        (lambda x: relay.sum(x, axis=1), (3, 5000), 256),  # of many terms: a block
        (lambda x: relay.max(x, axis=0), (20, 5000), 1),  # of few terms: a thread
        (lambda x: relay.nn.softmax(x, axis=-1), (64, 100), 32),
        (lambda x: relay.nn.softmax(x, axis=-1), (2, 3000), 256),
    ],
)
def test_the_default_is_the_rules(body: Callable[[Expr], Expr], shape: tuple[int, ...], threads: int) -> None:
    task = _task(body, shape)
    assert task.key.template == "reduce" and task.default == 0
    assert task.points.plain(0) == {"threads": threads}
    assert len({task.points.plain(i)["threads"] for i in range(len(task.points))}) == len(task.points) > 1


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (lambda x: relay.sum(x, axis=1), lambda x: x.sum(1)),
        (lambda x: relay.nn.softmax(x, axis=-1), lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    ],
)
def test_every_configuration_agrees_with_numpy(body: Callable[[Expr], Expr], wanted: Callable[..., np.ndarray]) -> None:
    target = Target("opencl")
    if not backend_of(target).is_here:
        pytest.skip("no OpenCL: pip install 'tilewright[opencl]'")
    task = _task(body, (5, 150))
    x = np.random.default_rng(0).standard_normal((5, 150)).astype("float32") / 8
    funcs = [
        lower_function(task.function, f"kernel{point}", target, dict(task.points.config(point)))
        for point in range(len(task.points))
    ]
    module = tw.build(funcs, target)
    for func in funcs:
        found = np.zeros(task.arguments[-1].shape, "float32")
        module[func.name](x, found)
        np.testing.assert_allclose(found, wanted(x), rtol=1e-4, atol=1e-6)
