"""OpenCL on a processor: its text has vectors and no threads beside each other, its numbers are the processor's."""

from __future__ import annotations

import re

import pytest

from tests.backend.gpu.test_models import module, normal, same, weights
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.backend.kernels import Task
from tilewright.driver.optimize import optimize
from tilewright.errors import TargetError
from tilewright.relay.ir.expr import Call, Expr, Function
from tilewright.relay.ir.visitor import calls
from tilewright.runtime.gpu.code import DeviceCode
from tilewright.runtime.link import split_objects
from tilewright.target import Target
from tilewright.tir.expr import SizeVar

TARGET = "opencl -device=cpu"


def _is_here() -> bool:
    return backend_of(Target(TARGET)).is_here


needs_opencl = pytest.mark.skipif(not _is_here(), reason="no OpenCL: pip install 'tilewright[opencl]'")


def _block(x: Expr) -> Expr:
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, weights(32, 16, 1, 1)), weights(32)))
    z = relay.nn.conv2d(y, weights(32, 1, 3, 3), padding=(1, 1), groups=32)
    return relay.nn.dense(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(z)), weights(10, 32))


def test_kernels_have_one_thread_a_block_and_sums_in_vectors() -> None:
    mod = optimize(module(_block, normal(1, 16, 12, 12)), Target(TARGET))
    functions = [
        call.op for call in calls(mod["main"].body) if isinstance(call, Call) and isinstance(call.op, Function)
    ]
    compiled = backend_of(Target(TARGET)).compile([Task(f"kernel{i}", f) for i, f in enumerate(functions)])
    code = DeviceCode.decode(split_objects(compiled.code)[0])
    launches = [launch for info in code.functions for launch in info.launches]
    assert launches and all(launch["block"] == [1, 1, 1] for launch in launches)
    assert "barrier" not in code.source and "__local" not in code.source
    # sums are variables, not arrays: compilers keep long ones in memory
    assert re.search(r"float(4|8|16) conv2d\w*_0, conv2d\w*;?", code.source), code.source


@needs_opencl
def test_a_block_of_convolutions_is_computed_as_on_the_processor() -> None:
    mod = module(_block, normal(1, 16, 12, 12))
    same(mod, normal(1, 16, 12, 12), target=TARGET)


@needs_opencl
@pytest.mark.parametrize("rows", [1, 5])
def test_symbolic_sizes_softmax_and_integers(rows: int) -> None:
    x = relay.var("x", shape=(SizeVar("n"), 24))
    picked = relay.argmax(relay.nn.softmax(relay.nn.dense(x, weights(7, 24))), axis=1)
    same(relay.IRModule.from_expr(relay.Function([x], picked)), normal(rows, 24), target=TARGET)


@pytest.mark.parametrize("spelling", ["opencl -device=gpu", "cuda -device=cpu"])
def test_other_devices_are_refused(spelling: str) -> None:
    with pytest.raises(TargetError, match="-device"):
        Target(spelling)


def test_the_spelling_is_parsed_again() -> None:
    target = Target(TARGET)
    assert Target(str(target)) == target != Target("opencl")
    assert target.backend == "opencl cpu"
