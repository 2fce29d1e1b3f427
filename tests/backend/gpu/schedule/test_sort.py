"""Sorting on devices: every form of its kernels beside NumPy's stable sort, and which of them a row takes."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay, te
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.backend import backend_of
from tilewright.codegen.build_device import device_programs
from tilewright.driver.lower import lower_function
from tilewright.target import Target
from tilewright.tir.expr import IntImm
from tilewright.tir.transform.split_host_device import HostLoop, Step
from tilewright.topi.reference import sort as reference

RNG = np.random.default_rng(3)
#: Shape, axis, wanted positions (0: all), threads and elements of a thread.
CASES = [
    ((7, 20), 1, 0, 32, 2),  # several rows in a tile
    ((5, 3, 4), 1, 2, 32, 1),
    ((2, 64), 1, 0, 32, 2),  # a row in a tile
    ((300,), 0, 0, 32, 2),  # three merges
    ((129, 2), 0, 70, 32, 2),  # two, of which a part is wanted
    ((700,), 0, 5, 32, 2),  # the first of each tile, and of these again
]


def _target() -> Target:
    if any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        return Target("cuda -emulate=1")
    if backend_of(Target("opencl")).is_here:
        return Target("opencl")
    pytest.skip("neither a C++ compiler for the emulation nor OpenCL: pip install 'tilewright[opencl]'")


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Many equal elements; of floats also both zeros, NaN and infinity."""
    found = np.round(RNG.standard_normal(shape) * 3)
    if dtype.startswith("float"):
        found.flat[1:6] = [np.nan, -0.0, -np.inf, 0.0, np.inf]
    return found > 0 if dtype == "bool" else found.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float16", marks=pytest.mark.long), "int8", "int64"])
@pytest.mark.sample(2)
def test_every_form_agrees_with_numpy(dtype: str) -> None:
    target, cases = _target(), CASES if dtype == "float32" else CASES[::2]
    funcs, wanted, inputs = [], [], []
    for number, (shape, axis, count, threads, elements) in enumerate(cases):
        x, ascending = relay.var("x", shape=shape, dtype=dtype), number % 2 == 0
        mod = relay.IRModule.from_expr(relay.Function([x], relay.argsort(x, axis, ascending, "int32", count)))
        (task,) = extract_from_program(mod, target)
        config = {"threads": threads, "elements": elements}
        funcs.append(lower_function(task.function, f"kernel{number}", target, config))
        inputs.append(values(shape, dtype))
        order = reference.argsort(inputs[-1], axis, ascending)
        wanted.append(np.take(order, np.arange(count or shape[axis]), axis).astype("int32"))
    module = tw.build(funcs, target)
    for func, x, order in zip(funcs, inputs, wanted, strict=True):
        found = np.full(order.shape, -1, "int32")
        module[func.name](x, found)
        np.testing.assert_array_equal(found, order)


def test_symbolic_rows_are_sorted_in_a_tile_or_merged() -> None:
    n = te.size_var("n")
    x = relay.var("x", shape=(2, n), dtype="float32")
    mod = relay.IRModule.from_expr(relay.Function([x], relay.argsort(x, 1)))
    model = tw.compile(mod, target=str(_target()), cache=False)
    for size in (5, 5000):
        data = values((2, size), "float32")
        np.testing.assert_array_equal(model(data), np.argsort(data, axis=1, kind="stable"))


@pytest.mark.parametrize(
    ("size", "count", "tile", "launches"), [(2048, 0, 2048, 1), (100_000, 0, 2048, 7), (1_000_000, 10, 2048, 3)]
)
def test_launches(size: int, count: int, tile: int, launches: int) -> None:
    """One for a row that a tile holds; else one, and one for each doubling of runs; few positions take less."""
    target = Target("cuda -arch=sm_80")
    x = relay.var("x", shape=(size,), dtype="float32")
    mod = relay.IRModule.from_expr(relay.Function([x], relay.argsort(x, 0, True, "int32", count)))
    (task,) = extract_from_program(mod, target)
    assert task.key.template == "sort" and len(task.points) == 16
    func = lower_function(task.function, "kernel", target, {"threads": 256, "elements": tile // 256})
    (program,) = device_programs([func], target)
    assert sum(_launches(step) for step in program.steps) == launches


def _launches(step: Step) -> int:
    """The launches of a step of the host."""
    if isinstance(step, HostLoop):
        assert isinstance(step.extent, IntImm)
        return step.extent.value * sum(_launches(inner) for inner in step.body)
    return 1
