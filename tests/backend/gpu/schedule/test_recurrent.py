"""Recurrent layers on devices: a launch for each product of a step, and the numbers of the processor."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.backend import backend_of
from tilewright.codegen.build_device import device_programs
from tilewright.driver.lower import lower_function
from tilewright.relay.ir.expr import Expr
from tilewright.target import Target
from tilewright.tir.transform.split_host_device import HostLoop

RNG = np.random.default_rng(6)


def _target() -> str:
    if any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        return "cuda -emulate=1 -max_threads_per_block=64"  # fibers are slow
    if backend_of(Target("opencl")).is_here:
        return "opencl"
    pytest.skip("neither a C++ compiler for the emulation nor OpenCL: pip install 'tilewright[opencl]'")


def normal(*shape: int) -> np.ndarray[Any, Any]:
    """Normal numbers, of the size of trained weights."""
    return (RNG.standard_normal(shape) / 3).astype("float32")


def _layer(kind: str) -> tuple[relay.IRModule, np.ndarray[Any, Any]]:
    """A layer of 20 units, which are no whole blocks, on the inputs of its gates."""

    def const(*shape: int) -> Expr:
        return relay.const(normal(*shape))

    if kind == "lstm":
        gates = relay.var("gates", shape=(4, 2, 160))
        made = relay.nn.lstm(gates, const(2, 80, 20), const(2, 2, 20), const(2, 2, 20), direction="bidirectional")
    elif kind == "gru":
        gates = relay.var("gates", shape=(4, 2, 60))
        made = relay.nn.gru(gates, const(1, 60, 20), const(1, 2, 20))
    else:
        gates = relay.var("gates", shape=(4, 2, 60))
        made = relay.nn.gru(gates, const(1, 60, 20), const(1, 2, 20), const(1, 20), linear_before_reset=True)
    shape = tuple(int(n) for n in gates.type_annotation.shape)
    return relay.IRModule.from_expr(relay.Function([gates], made)), normal(*shape)


@pytest.mark.parametrize(("kind", "launches"), [("lstm", 1), ("gru", 2), ("gru, product first", 1)])
def test_a_step_is_a_launch_for_each_product(kind: str, launches: int) -> None:
    target = Target("cuda -arch=sm_80")
    tasks = extract_from_program(_layer(kind)[0], target)
    (task,) = [task for task in tasks if task.key.template == "recurrent"]
    assert len(task.points) > 3
    (program,) = device_programs([lower_function(task.function, "layer", target)], target)
    (loop,) = [step for step in program.steps if isinstance(step, HostLoop)]
    assert len(loop.body) == launches


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["lstm", "gru", "gru, product first"])
def test_layers_agree_with_the_processor(kind: str) -> None:
    mod, gates = _layer(kind)
    ours, wanted = (tw.compile(mod, target=target, cache=False)(gates) for target in (_target(), "cpu"))
    for one, other in zip(ours, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
