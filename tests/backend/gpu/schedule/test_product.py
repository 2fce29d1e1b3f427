"""Products whose terms are divided among blocks: the last block adds up, in an order that no run changes."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.autotvm.task.task import KernelTask
from tilewright.codegen.build_device import device_programs, emit_device
from tilewright.driver.lower import lower_function
from tilewright.errors import EnvironmentError_
from tilewright.runtime.gpu.nvrtc import compile_ptx
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc

RNG = np.random.default_rng(2)
CONFIG = {"rows": 16, "columns": 16, "terms": 16, "thread_rows": 1, "thread_columns": 2, "parts": 4}


def _task(target: Target, with_epilogue: bool = True) -> KernelTask:
    x, weight, bias = relay.var("x", shape=(16, 500)), relay.var("w", shape=(40, 500)), relay.var("b", shape=(40,))
    product = relay.nn.dense(x, weight)
    params = [x, weight, bias] if with_epilogue else [x, weight]
    body = relay.nn.relu(relay.nn.bias_add(product, bias)) if with_epilogue else product
    (task,) = extract_from_program(relay.IRModule.from_expr(relay.Function(params, body)), target)
    return task


def _lowered(task: KernelTask, target: Target, joined: int, name: str = "kernel") -> PrimFunc:
    return lower_function(task.function, name, target, {**CONFIG, "joined": joined})


@pytest.mark.parametrize(("joined", "launches"), [(0, 2), (1, 1)])
def test_launches(joined: int, launches: int) -> None:
    target = Target("cuda -arch=sm_80")
    (program,) = device_programs([_lowered(_task(target), target, joined)], target)
    assert len(program.launches) == launches


def test_devices_without_a_fence_add_up_in_a_second_launch() -> None:
    points = _task(Target("opencl")).points
    assert {points.plain(i)["joined"] for i in range(len(points))} == {0}


def test_the_last_block_adds_up_the_same_bits_in_every_run() -> None:
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        pytest.skip("emulation needs a C++ compiler")
    target = Target("cuda -emulate=1")
    x, weight, bias = (RNG.standard_normal(shape).astype("float32") for shape in ((16, 500), (40, 500), (40,)))
    exact = x.astype("float64") @ weight.astype("float64").T
    funcs = [
        _lowered(_task(target, epilogue), target, joined, f"kernel{joined}{epilogue:d}")
        for joined in (0, 1)
        for epilogue in (False, True)
    ]
    module = tw.build(funcs, target)
    found: dict[bool, list[np.ndarray]] = {False: [], True: []}
    for func in funcs:
        epilogue = func.name.endswith("1")
        for _ in range(2):  # counters are 0 again behind a launch
            result = np.full((16, 40), np.nan, "float32")
            module[func.name](*((x, weight, bias) if epilogue else (x, weight)), result)
            np.testing.assert_allclose(result, np.maximum(exact + bias, 0) if epilogue else exact, rtol=1e-4, atol=1e-4)
            found[epilogue].append(result)
    for results in found.values():
        for other in results[1:]:
            np.testing.assert_array_equal(results[0], other)


def test_a_thread_adds_up_its_own_elements_only() -> None:
    """Of an image whose rows are no multiple of its elements it took whole rows, in an array of local memory."""
    target = Target("cuda -arch=sm_80")
    x, weight = relay.var("x", shape=(1, 32, 20, 20)), relay.var("w", shape=(64, 32, 4, 4))
    body = relay.nn.relu(relay.nn.conv2d(x, weight, strides=(2, 2)))
    (task,) = extract_from_program(relay.IRModule.from_expr(relay.Function([x, weight], body)), target)
    source, _ = emit_device([_lowered(task, target, 1)], target)
    sizes = [int(size) for size in re.findall(r"float conv2d_nchw\[(\d+)\]", source)]
    assert sizes == [1]


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_parts_are_read_behind_the_fences(arch: str) -> None:
    """Stores, a fence, a barrier, the count, a barrier, a fence, and loads that no read-only cache answers."""
    target = Target(f"cuda -arch={arch}")
    source, _ = emit_device([_lowered(_task(target), target, 1)], target)
    try:
        ptx = compile_ptx(source, arch).decode()
    except EnvironmentError_ as error:
        pytest.skip(str(error))
    steps = re.findall(r"\b(st\.global|membar|fence\.|atom|bar\.sync|barrier\.sync|ld\.global(?:\.nc)?)", ptx)
    count = steps.index("atom")
    kinds = ["fence" if step.startswith(("membar", "fence")) else step[:3] for step in steps]
    assert kinds[count - 3 : count + 3] == ["st.", "fence", "bar", "ato", "bar", "fence"]
    assert steps[count + 3 : count + 7] == ["ld.global"] * 4
