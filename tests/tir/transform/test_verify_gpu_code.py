"""Kernels that a device cannot run are refused with the figure and the limit."""

from __future__ import annotations

import re

import pytest

from tests.codegen.source.programs import axes, tiled_gemm
from tilewright import te
from tilewright.codegen.build_device import emit_device
from tilewright.errors import ScheduleError
from tilewright.target import Target
from tilewright.tir.transform.verify_gpu_code import verify_gpu_code


def gemm():
    s, args = tiled_gemm(64, 64, 64)
    return te.lower(s, args, name="gemm")


def vectors(lanes):
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a(i) + 1.0, name="B")
    s = te.create_schedule(b.op)
    thread, lane = s[b].split(b.op.axis[0], factor=lanes)
    s[b].bind(thread, *axes("threadIdx.x"))
    s[b].vectorize(lane)
    return te.lower(s, [a, b], name="f")


def test_a_kernel_within_its_limits_stays_as_it_is():
    func = gemm()
    assert verify_gpu_code(func, Target("cuda")) is func
    # 8 x 8 threads; tiles of 32 x 8 and 8 x 32 floats; 2 x 2 x 4 sums a thread: exactly these figures are enough.
    exact = "-max_threads_per_block=64 -max_shared_memory_per_block=2048 -max_local_memory_per_thread=64"
    assert verify_gpu_code(func, Target(f"cuda {exact}")) is func
    assert verify_gpu_code(vectors(4), Target("opencl -max_vector_bytes=16")).name == "f"


@pytest.mark.parametrize(
    ("make", "option", "message"),
    [
        (gemm, "max_threads_per_block=63", "gemm_kernel0 has 64 threads in a block (threadIdx.y 8, threadIdx.x 8); "),
        (gemm, "max_shared_memory_per_block=2047", "gemm_kernel0 has 2048 bytes of shared memory in a block (A.shared"),
        (gemm, "max_local_memory_per_thread=63", "gemm_kernel0 has 64 bytes of local arrays in a thread; "),
        (lambda: vectors(4), "max_vector_bytes=8", "f_kernel0 has a vector of 16 bytes; "),
    ],
)
@pytest.mark.parametrize("kind", ["cuda", "opencl", "metal", "vulkan", "webgpu"])
def test_what_exceeds_a_limit_is_refused(kind, make, option, message):
    limit = f"{kind} allows {option.partition('=')[2]} (-{option} of the target)"
    with pytest.raises(ScheduleError, match=f"{re.escape(message)}.*{re.escape(limit)}"):
        emit_device([make()], Target(f"{kind} -{option}"))


def test_defaults_of_a_kind():
    a = te.placeholder((2048,), name="A")
    b = te.compute((2048,), lambda i: a(i) + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], *axes("threadIdx.x"))
    with pytest.raises(ScheduleError, match=r"f_kernel0 has 2048 threads in a block \(threadIdx.x 2048\); opencl"):
        emit_device([te.lower(s, [a, b], name="f")], Target("opencl"))
