"""`b[i] = a[i] * f` for i < n, in blocks of 64, in the language of each device; models of float16 and of sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.onnx_models import make_model
from tilewright.errors import EnvironmentError_
from tilewright.runtime.gpu.api import DeviceApi, Kernel, Launch
from tilewright.runtime.gpu.devices import open_device
from tilewright.runtime.gpu.spirv import glsl_compiler

KINDS = ("opencl", "cuda -emulate=1", "metal -emulate=1", "vulkan", "webgpu")
_BODY = """ {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) b[i] = a[i] * f;
}
"""
_CUDA_HEAD = 'extern "C" __global__ void __launch_bounds__(64) scale'
_CUDA = f"{_CUDA_HEAD}(float* __restrict__ a, float* __restrict__ b, float f, int n){_BODY}"
_METAL_PARAMETERS = (
    "device float* a [[buffer(0)]]", "device float* b [[buffer(1)]]", "constant float& f [[buffer(2)]]",
    "constant int& n [[buffer(3)]]", "uint3 blockIdx [[threadgroup_position_in_grid]]",
    "uint3 threadIdx [[thread_position_in_threadgroup]]",
)  # fmt: skip
_METAL = f"kernel void scale({', '.join(_METAL_PARAMETERS)}){_BODY}"
_OPENCL = """kernel void scale(global const float* a, global float* b, float f, int n) {
  int i = get_global_id(0);
  if (i < n) b[i] = a[i] * f;
}
"""
_WEBGPU = """struct scalars { f: f32, n: i32, }
@group(0) @binding(0) var<storage, read_write> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> b: array<f32>;
@group(0) @binding(2) var<uniform> s: scalars;
@compute @workgroup_size(64)
fn scale(@builtin(workgroup_id) block: vec3<u32>, @builtin(local_invocation_id) thread: vec3<u32>) {
  let i = i32(block.x * 64u + thread.x);
  if (i < s.n) { b[i] = a[i] * s.f; }
}
"""
_VULKAN = """#version 460
#extension GL_EXT_buffer_reference : require
layout(buffer_reference, std430, buffer_reference_align = 4) buffer floats { float at[]; };
layout(buffer_reference, std430) readonly buffer arguments { floats a; floats b; float f; int n; };
// kernel scale
layout(local_size_x = 64) in;
layout(push_constant) uniform constants { arguments at; };
void main() {
  int i = int(gl_GlobalInvocationID.x);
  if (i < at.n) at.b.at[i] = at.a.at[i] * at.f;
}
"""
SOURCES = {"cuda": _CUDA, "metal": _METAL, "opencl": _OPENCL, "vulkan": _VULKAN, "webgpu": _WEBGPU}


def opened(kind: str) -> DeviceApi:
    """The device of this machine that a target spells; the test is skipped where there is none."""
    name, *options = kind.split()
    try:
        if name == "vulkan":
            glsl_compiler()
        return open_device(name, emulate=bool(options))
    except EnvironmentError_ as error:
        pytest.skip(f"no {kind}: {error}")


def scale_kernel(kind: str, api: DeviceApi) -> Kernel:
    """The kernel, compiled."""
    return api.compile(SOURCES[kind.split()[0]], ["scale"])["scale"]


def scale(kernel: Kernel, source: Any, target: Any, factor: float, n: int = 100) -> Launch:
    """A launch of the kernel."""
    return Launch(kernel, (-(-n // 64), 1, 1), (64, 1, 1), [source, target, np.float32(factor), np.int32(n)])


def halves() -> Any:
    """A model of float16: a convolution, means, a product, a softmax, and moves of single elements."""
    rng, half = np.random.default_rng(0), TensorProto.FLOAT16
    weights = {name: (rng.standard_normal(shape) * 0.3).astype("float16")
               for name, shape in (("w", (7, 3, 3, 3)), ("d", (7, 9)))}  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "d"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"]),
        helper.make_node("Transpose", ["x"], ["moved"], perm=[0, 2, 3, 1]),
    ]
    outputs = {"y": (half, [1, 9]), "c": (half, [1, 7, 11, 13]), "moved": (half, [1, 11, 13, 3])}
    return make_model(nodes, {"x": (half, [1, 3, 11, 13])}, outputs, weights)


def reductions() -> tuple[Any, dict[str, np.ndarray]]:
    """A model of reductions that threads share, of few and many terms, and inputs."""
    rng, real = np.random.default_rng(0), TensorProto.FLOAT
    weights = {name: rng.standard_normal(77).astype("float32") for name in ("g", "b")}
    nodes = [
        helper.make_node("Softmax", ["x"], ["s"], axis=-1),
        helper.make_node("LayerNormalization", ["x", "g", "b"], ["l"], axis=-1),
        helper.make_node("ReduceMean", ["y"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("ReduceMax", ["y"], ["most"], axes=[1], keepdims=0),
        helper.make_node("ReduceSum", ["n", "axis"], ["sum"], keepdims=0),
    ]
    whole = TensorProto.INT32
    inputs = {"x": (real, [12, 77]), "y": (real, [3, 5000]), "n": (whole, [3, 5000])}
    outputs = {
        "s": (real, [12, 77]),
        "l": (real, [12, 77]),
        "mean": (real, [3]),
        "most": (real, [3]),
        "sum": (whole, [3]),
    }
    feeds = {name: (rng.standard_normal(shape) * 9).astype("int32" if kind == whole else "float32")
             for name, (kind, shape) in inputs.items()}  # fmt: skip
    return make_model(nodes, inputs, outputs, {**weights, "axis": np.array([1])}), feeds
