"""Winograd convolutions on GPUs: results, launches, and where they are chosen."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.backend.gpu.schedule.layout import conv2d_ways
from tilewright.codegen.build_device import device_programs
from tilewright.driver.lower import lower_function
from tilewright.relay.ir.expr import Expr
from tilewright.target import DeviceTarget, Target
from tilewright.tir.expr import SizeVar
from tilewright.topi.schedule.workload import Conv2DWorkload

RNG = np.random.default_rng(5)


def convolved(x: np.ndarray, weight: np.ndarray, padding: tuple[int, int], stride: int) -> np.ndarray:
    """The convolution by NumPy, in float64."""
    (top, left), (_, _, kh, kw) = padding, weight.shape
    wide = np.pad(x.astype("float64"), ((0, 0), (0, 0), (top, top), (left, left)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (kh, kw), (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("ncyxij,ocij->noyx", windows, weight.astype("float64"), optimize=True)


def winograd(
    x: Expr, weight: np.ndarray, tile_size: int, padding: tuple[int, int], stride: int, bias: np.ndarray
) -> Expr:
    """Its rectified sum with a bias, by tiles of that size."""
    strides = (stride, stride)
    points = relay.nn.contrib_conv2d_winograd_weight_transform(
        relay.const(weight), tile_size, block=len(weight), strides=strides
    )
    y = relay.nn.contrib_conv2d_winograd_without_weight_transform(
        x, points, tile_size, padding, "NCHW", weight.shape[2:], strides
    )
    return relay.nn.relu(relay.nn.bias_add(y, relay.const(bias)))


def _check(target: str, shape: Any, kernel: Any, tile_size: int, padding: Any, stride: int, symbolic: bool) -> None:
    weight = (RNG.standard_normal(kernel) / 4).astype("float32")
    bias = RNG.standard_normal(kernel[0]).astype("float32")
    x = relay.var("x", shape=(SizeVar("n", "int32"), *shape[1:]) if symbolic else shape)
    body = winograd(x, weight, tile_size, padding, stride, bias)
    exe = tw.compile(relay.IRModule.from_expr(relay.Function([x], body)), target=target, cache=False)
    assert [call.choice["template"] for call in exe.manifest.kernels] == ["winograd"]
    for batch in (shape[0], 3)[: 1 + symbolic]:
        data = RNG.standard_normal((batch, *shape[1:])).astype("float32")
        wanted = np.maximum(convolved(data, weight, padding, stride) + bias[:, None, None], 0)
        np.testing.assert_allclose(np.asarray(exe(data)), wanted, rtol=1e-4, atol=1e-4)


CASES = [
    ((1, 8, 12, 12), (16, 8, 3, 3), 4, (1, 1), 1, False),  # whole tiles, stored by vectors
    ((2, 5, 9, 7), (6, 5, 3, 3), 4, (1, 1), 1, False),
    ((3, 7, 10, 13), (5, 7, 3, 3), 2, (0, 0), 1, False),
    ((1, 4, 9, 14), (8, 4, 1, 7), 4, (0, 3), 1, False),
    ((1, 4, 11, 12), (8, 4, 3, 3), 2, (1, 1), 2, False),
    ((1, 6, 18, 18), (32, 6, 3, 3), 4, (1, 1), 1, True),
]


@pytest.mark.parametrize(("shape", "kernel", "tile_size", "padding", "stride", "symbolic"), CASES)
def test_results_are_those_of_the_definition(
    shape: Any, kernel: Any, tile_size: int, padding: Any, stride: int, symbolic: bool
) -> None:
    pytest.importorskip("pyopencl")
    _check("opencl", shape, kernel, tile_size, padding, stride, symbolic)


def test_emulated_cuda_computes_the_same() -> None:
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        pytest.skip("emulation needs a C++ compiler")
    _check("cuda -emulate=1", (1, 3, 9, 13), (8, 3, 3, 3), 4, (1, 1), 1, False)


def test_a_convolution_is_three_launches_of_tuned_tiles() -> None:
    """The space is that of products, with the threads of the transforms; parts in the launch of their sums."""
    target = Target("cuda -arch=sm_80")
    x, weight = relay.var("x", shape=(1, 512, 8, 8)), np.zeros((128, 512, 3, 3), "float32")
    body = winograd(x, weight, 4, (1, 1), 1, np.zeros(128, "float32"))
    (task,) = extract_from_program(relay.IRModule.from_expr(relay.Function([x], body)), target)
    assert task.key is not None and task.key.template == "winograd"
    joined = next(c for i in range(len(task.points)) if (c := task.points.plain(i))["joined"])
    for config in (dict(task.points.plain(0)), joined):
        (program,) = device_programs([lower_function(task.function, "kernel", target, config)], target)
        assert len(program.launches) == 3


@pytest.mark.parametrize(
    ("arch", "batch", "channels", "size", "tile_size"),
    [("sm_90a", 1, 64, 224, 4), ("sm_90a", 1, 512, 7, 0), ("sm_80", 32, 256, 14, 4), ("sm_90a", 1, 3, 32, 0)],
)
def test_cost_chooses(arch: str, batch: int, channels: int, size: int, tile_size: int) -> None:
    """Large convolutions; of small ones three launches take longer than one."""
    target = Target(f"cuda -arch={arch}")
    assert isinstance(target, DeviceTarget)
    conv = Conv2DWorkload(batch, channels, channels, size, size, size, size, kernel_size=(3, 3), padded=True)
    first, *_ = ways = conv2d_ways(conv, target, winograd=True)
    assert first.tile_size == tile_size
    assert ways[-1].tile_size == 0 and first.cost <= ways[-1].cost
    assert [way.tile_size for way in conv2d_ways(conv, target, winograd=False)] == [0]
