"""Kernels of thread blocks: built and run through OpenCL and through CUDA emulated on the host."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.source.programs import axes, require_target, tiled_gemm
from tilewright import te, tir
from tilewright.backend import build
from tilewright.codegen.build_device import emit_device
from tilewright.errors import InputError, ScheduleError, TargetError, UnsupportedError
from tilewright.runtime.gpu.nvrtc import compile_cubin
from tilewright.target import Target

TARGETS = ["opencl", "cuda -emulate=1", "metal -emulate=1", "vulkan", "vulkan -integer_bits=32", "webgpu"]

ELEMENTS = ("float16", "int8", "int64", "float64", "bool")
#: Element types that a language does not have in memory; that they are refused is tested below.
MISSING = {("webgpu", "float64"), ("vulkan -integer_bits=32", "float64"), ("metal -emulate=1", "float64")}


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [(64, 64, 64), (64, 96, 40), (50, 70, 33)])
@pytest.mark.sample(6)
def test_a_tiled_product_agrees_with_numpy(target, size):
    n, m, k = size
    s, args = tiled_gemm(n, m, k)
    module = build(te.lower(s, args, name="gemm"), require_target(target))
    a, b, c = random(n, k), random(k, m), np.zeros((n, m), "float32")
    module["gemm"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_any_length_without_recompiling(target):
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: tir.exp(a(i)) + 1.0, name="B")
    c = te.compute((n,), lambda i: b(i) * b(i), name="C")
    s = te.create_schedule(c.op)
    for t in (b, c):
        outer, inner = s[t].split(t.op.axis[0], factor=64)
        for loop, thread in zip((outer, inner), axes("blockIdx.x", "threadIdx.x")):
            s[t].bind(loop, thread)
    module = build(te.lower(s, [a, c], name="f"), require_target(target))
    for length in (1, 63, 64, 1000):
        x, y = random(length), np.zeros(length, "float32")
        module["f"](x, y)
        np.testing.assert_allclose(y, (np.exp(x) + 1) ** 2, rtol=1e-5)
    with pytest.raises(InputError, match="dimension 0 of C is 7; it must be n = 8"):
        module["f"](random(8), np.zeros(7, "float32"))


def element_kernel(dtype: str) -> tir.PrimFunc:
    """`f_dtype`: each element with the one at the other end."""
    a = te.placeholder((40,), dtype, name="A")
    one = tir.const(1, dtype)
    b = te.compute((40,), lambda i: tir.any(a(i), a(39 - i)) if dtype == "bool" else a(i) * a(39 - i) + one, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    return te.lower(s, [a, b], name=f"f_{dtype}")


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_of_every_element_type_agree_with_numpy(target):
    dtypes = [dtype for dtype in ELEMENTS if (target, dtype) not in MISSING]
    module = build([element_kernel(dtype) for dtype in dtypes], require_target(target))
    for dtype in dtypes:
        x = np.random.default_rng(1).integers(-9, 9, 40).astype(dtype)
        y = np.zeros_like(x)
        module[f"f_{dtype}"](x, y)
        wanted = x | x[::-1] if dtype == "bool" else x * x[::-1] + np.array(1, dtype)
        np.testing.assert_array_equal(y, wanted, dtype)


@pytest.mark.parametrize("target", TARGETS)
def test_device_arrays_stay_on_the_device(target):
    s, args = tiled_gemm(32, 32, 32)
    module = build(te.lower(s, args, name="gemm"), require_target(target))
    a, b = random(32, 32), random(32, 32)
    held = [module.array(x) for x in (a, b, np.zeros((32, 32), "float32"))]
    module["gemm"](*held)
    np.testing.assert_allclose(held[2].numpy(), a @ b, rtol=1e-4, atol=1e-4)
    assert len(module["gemm"].time(*held, repeat=2)) == 2
    with pytest.raises(InputError, match=r"argument A.* got float64"):
        module["gemm"](a.astype("float64"), b, a)


def test_kernels_of_every_language_are_emitted_as_recorded(check_golden):
    s, args = tiled_gemm(64, 64, 64)
    func = te.lower(s, args, name="gemm")
    for kind in ("opencl", "cuda", "metal", "vulkan", "webgpu"):
        text, _ = emit_device([func], Target(kind))
        check_golden(f"gemm_{kind}.txt", text[text.rindex("}\n\n") + 3 :])


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_100"])
def test_cuda_compiles_without_a_gpu(arch):
    pytest.importorskip("nvidia", reason="needs the package nvidia-cuda-nvrtc")
    s, args = tiled_gemm(64, 64, 64)
    text, _ = emit_device([te.lower(s, args, name="gemm")], Target("cuda"))
    assert compile_cubin(text, arch)[:4] == b"\x7fELF"


def test_a_stage_outside_of_all_threads_is_refused():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a(i) + 1.0, name="B")
    c = te.compute((8,), lambda i: b(i) * 2.0, name="C")
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], te.thread_axis("threadIdx.x"))
    func = te.lower(s, [a, c], name="f")
    with pytest.raises(ScheduleError, match="B is computed outside of all device threads"):
        emit_device([func], Target("opencl"))
    with pytest.raises(TargetError, match="bound to device threads; build it for"):
        build(func, "cpu")


def test_unknown_options_of_a_device():
    with pytest.raises(TargetError, match="unknown option '-arch=sm_80'"):
        Target("opencl -arch=sm_80")
    with pytest.raises(TargetError, match="not a whole number"):
        Target("cuda -thread_warp_size=many")
    with pytest.raises(TargetError, match="unknown option '-integer_bits=32'"):
        Target("webgpu -integer_bits=32")
    with pytest.raises(TargetError, match="integers of 32 bits, or of all sizes"):
        Target("vulkan -integer_bits=64")
    for spec in ("cuda -arch=sm_90", "vulkan -integer_bits=32"):
        assert Target(str(Target(spec))) == Target(spec)


@pytest.mark.parametrize(("target", "dtype"), sorted(MISSING))
def test_element_types_that_a_language_lacks(target, dtype):
    a = te.placeholder((40,), dtype, name="A")
    b = te.compute((40,), lambda i: a(39 - i), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(UnsupportedError, match=f"(WGSL|GLSL|Metal) code has no type for.*{dtype}"):
        emit_device([te.lower(s, [a, b])], Target(target))


@pytest.mark.parametrize("target", TARGETS)
def test_buffers_of_any_name(target: str) -> None:
    """Names that a language or the text around a kernel could want for itself."""
    require_target(target)
    names = ["block", "at", "buffer", "input", "output", "p0", "main", "block", "texture", "sampler"]
    inputs = [te.placeholder((64,), name=name) for name in names]
    total = te.compute((64,), lambda i: sum((x(i) for x in inputs[1:]), inputs[0](i)), name="out")
    s = te.create_schedule(total.op)
    s[total].bind(total.op.axis[0], te.thread_axis("threadIdx.x"))
    module = build(te.lower(s, [*inputs, total], name="f"), target)
    arrays = [np.full(64, i, np.float32) for i in range(len(names))]
    result = np.empty(64, np.float32)
    module["f"](*arrays, result)
    np.testing.assert_array_equal(result, np.full(64, 45, np.float32))
