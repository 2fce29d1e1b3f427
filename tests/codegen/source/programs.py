"""Schedules for devices that several tests build."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tilewright import te
from tilewright.errors import EnvironmentError_
from tilewright.runtime.gpu.devices import open_device
from tilewright.runtime.gpu.spirv import glsl_compiler


def require_target(spec: str) -> str:
    """`spec`, where this machine can build and run it; else the test skips with the reason."""
    if spec == "c" and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler on this machine")
    if "emulate" in spec and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        pytest.skip("emulating a GPU needs a C++ compiler")
    kind = spec.partition(" ")[0]
    if kind in ("opencl", "vulkan", "webgpu"):
        try:
            open_device(kind)
            if kind == "vulkan":
                glsl_compiler()
        except EnvironmentError_ as error:
            pytest.skip(str(error))
    return spec


def axes(*tags: str) -> list[Any]:
    """One thread axis per tag."""
    return [te.thread_axis(tag) for tag in tags]


def tiled_gemm(n: int, m: int, k: int, tile: int = 32, threads: int = 8, virtual: int = 2) -> tuple[Any, list[Any]]:
    """C = A @ B in tiles: shared memory filled by all threads of a block, virtual threads over rows, local sums."""
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    axis = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a(i, axis) * b(axis, j), axis=axis), name="C")
    s = te.create_schedule(c.op)
    shared = [s.cache_read(a, "shared", [c]), s.cache_read(b, "shared", [c])]
    local = s.cache_write(c, "local")
    block_x, block_y, thread_x, thread_y, vthread = axes(
        "blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread"
    )
    stage = s[c]
    i, j = stage.op.axis
    block_i, i = stage.split(i, factor=tile)
    block_j, j = stage.split(j, factor=tile)
    virtual_i, i = stage.split(i, nparts=virtual)
    thread_i, i = stage.split(i, nparts=threads)
    thread_j, j = stage.split(j, nparts=threads)
    stage.reorder(block_i, block_j, virtual_i, thread_i, thread_j, i, j)
    for loop, thread in zip(
        (block_i, block_j, virtual_i, thread_i, thread_j), (block_y, block_x, vthread, thread_y, thread_x)
    ):
        stage.bind(loop, thread)
    s[local].compute_at(stage, thread_j)
    outer, inner = s[local].split(s[local].op.reduce_axis[0], factor=8)
    s[local].reorder(outer, inner, *s[local].op.axis)
    for load in shared:
        s[load].compute_at(s[local], outer)
        fused = s[load].fuse(*s[load].op.axis)
        fused, x = s[load].split(fused, factor=threads)
        fused, y = s[load].split(fused, factor=threads)
        s[load].bind(x, thread_x)
        s[load].bind(y, thread_y)
    return s, [a, b, c]
