"""Products of threads that compute alone: no memory of blocks, no barriers, operands straight from memory."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.backend.gpu.schedule import machine
from tilewright.codegen.build_device import device_programs, emit_device
from tilewright.driver.lower import lower_function
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Expr
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc

RNG = np.random.default_rng(3)


def _convolution() -> tuple[list[Expr], Expr]:
    x, weight = relay.var("x", shape=(2, 6, 11, 9)), relay.var("w", shape=(10, 6, 3, 3))
    return [x, weight], relay.nn.relu(relay.nn.conv2d(x, weight, strides=(2, 1), padding=(1, 1)))


def _dense() -> tuple[list[Expr], Expr]:
    x, weight = relay.var("x", shape=(16, 50)), relay.var("w", shape=(40, 50))
    return [x, weight], relay.nn.dense(x, weight)


def _lowered(params: list[Expr], body: Expr, target: Target, name: str = "kernel", **config: int) -> PrimFunc:
    (task,) = extract_from_program(relay.IRModule.from_expr(relay.Function(params, body)), target)
    found = [task.points.plain(i) for i in range(len(task.points))]
    chosen = [one for one in found if config.items() <= one.items()] if config else found
    return lower_function(task.function, name, target, chosen[0])


@pytest.mark.parametrize("make", [_convolution, _dense])
def test_threads_of_a_browser_compute_alone(make) -> None:
    target = Target("webgpu")
    func = _lowered(*make(), target)
    (program,) = device_programs([func], target)
    (launch,) = program.launches
    assert func.attrs["choice"].template == "register_product"
    text, _ = emit_device([func], target)
    assert launch.kernel.name in text
    assert "Barrier" not in text.split(launch.kernel.name, 1)[1]
    assert "var<workgroup>" not in text


def test_other_devices_share() -> None:
    func = _lowered(*_dense(), Target("opencl"))
    assert func.attrs["choice"].template == "product"


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (4, 4), (8, 2), (2, 8)])
@pytest.mark.parametrize("make", [_convolution, _dense])
def test_results_of_tiles(make, rows: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles that divide neither rows nor columns, in the emulation with a machine whose threads do not share."""
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        pytest.skip("emulation needs a C++ compiler")
    monkeypatch.setattr(machine, "_BY_ARCHITECTURE", {"80": "browser"})
    target = Target("cuda -emulate=1")
    params, body = make()
    func = _lowered(params, body, target, f"kernel{rows}{columns}", thread_rows=rows, thread_columns=columns)
    assert func.attrs["choice"].template == "register_product"
    inputs = [RNG.standard_normal(p.type_annotation.shape).astype("float32") for p in params]
    mod = relay.IRModule.from_expr(relay.Function(params, body))
    want = interpret(mod, dict(zip([p.name for p in params], inputs)))[0]
    result = np.full(want.shape, np.nan, "float32")
    tw.build([func], target)[func.name](*inputs, result)
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4)
