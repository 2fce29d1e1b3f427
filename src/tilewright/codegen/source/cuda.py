"""CUDA C++: one `__global__` function per kernel (NVIDIA, CUDA C++ Programming Guide)."""

from __future__ import annotations

from dataclasses import replace

from tilewright.codegen.source.arrival import arrive, called_functions
from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.c import C_KEYWORDS
from tilewright.codegen.source.dialect import Dialect, float_names
from tilewright.codegen.source.gpu import NATIVE, Language, parameter_list
from tilewright.codegen.source.half import CONVERSIONS, half_functions
from tilewright.codegen.source.literals import c_literal, division_functions
from tilewright.codegen.source.tensor_core import TENSOR_CORE_CALLS, dynamic_array
from tilewright.codegen.source.wmma import FRAGMENT_CALLS, fragment_array
from tilewright.tir.tensor_core import RESIDENT
from tilewright.tir.transform.join_parts import COUNTER
from tilewright.tir.transform.split_host_device import Launch
from tilewright.tir.warp_matrix import FRAGMENT_SCOPES

_SIGNED = {"int8": "signed char", "int16": "short", "int32": "int", "int64": "long long"}
_UNSIGNED = {"uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
             "uint64": "unsigned long long"}  # fmt: skip
_MATH = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt tanh erf erfc lgamma tgamma sin cos tan asin acos atan sinh "
    "cosh asinh acosh atanh floor ceil trunc round=rint fabs abs=fabs pow fmod atan2 hypot copysign fma fmax"
)

_SHUFFLES = {(f"warp_{name}", dtype): f"tilewright_{name}" for name in ("shuffle", "shuffle_down")
             for dtype in ("bool", *_SIGNED, *_UNSIGNED, "float32", "float64")}  # fmt: skip

CUDA = Dialect(
    name="CUDA",
    types={"bool": "bool", **_SIGNED, **_UNSIGNED, "float32": "float", "float64": "double", "float16": "unsigned short",
           "bfloat16": "unsigned short"},
    functions={**float_names(_MATH, {"float32": "f", "float64": ""}), **_SHUFFLES,
               ("exp2_approx", "float32"): "tilewright_exp2_approx",
               ("dp4a", "int32"): "tilewright_dp4a", ("popcount", "int32"): "__popc",
               ("popcount", "uint32"): "__popc", ("clz", "int32"): "__clz", ("clz", "uint32"): "__clz"},
    conversions=CONVERSIONS,
    literal=lambda dtype, value: c_literal(dtype, value, "tilewright_infinity()", "tilewright_nan()"),
    threads={f"{kind}.{axis}": f"(int){kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz"},
    barriers={"shared": "__syncthreads();", "warp": "__syncwarp();"},
    scopes={"local": "", "shared": "__shared__ ", COUNTER: "static "},
    array="{scope}__align__(16) {type} {name}[{size}];",  # as wide accesses want it
    arrays={"shared.dyn": dynamic_array},
    effects={**TENSOR_CORE_CALLS, "arrive": arrive},
    unroll="#pragma unroll",
    reinterpret="tilewright_bits<{target}>({value})",
)  # fmt: skip

_BITS = """\
__device__ __forceinline__ float tilewright_infinity() { return __int_as_float(0x7f800000); }
__device__ __forceinline__ float tilewright_nan() { return __int_as_float(0x7fffffff); }
template <class To, class From> __device__ __forceinline__ To tilewright_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "the bits of one type as another of its size");
  union { From from; To to; } u;
  u.from = from;
  return u.to;
}
template <class T> __device__ __forceinline__ T tilewright_shuffle(T value, int lane, int width) {
  return __shfl_sync(0xffffffffu, value, lane, width);
}
template <class T> __device__ __forceinline__ T tilewright_shuffle_down(T value, int step, int width) {
  return __shfl_down_sync(0xffffffffu, value, step, width);
}"""

# The device's own instructions, which the host that emulates it does not have.
_CONVERSIONS = """\
__device__ __forceinline__ float tilewright_from_half(unsigned short h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
__device__ __forceinline__ unsigned short tilewright_to_half(float f) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
__device__ __forceinline__ float tilewright_exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float tilewright_from_bfloat(unsigned short h) {
  return __uint_as_float((unsigned int)h << 16);
}
__device__ __forceinline__ unsigned short tilewright_to_bfloat(float f) {
#if __CUDA_ARCH__ >= 800
  unsigned short h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#else
  unsigned int bits = __float_as_uint(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)((bits >> 16) | 0x40u);
  return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}"""


def _head(launch: Launch, b: SourceBuilder) -> str:
    parameters = parameter_list(launch, b, "{const}{type}* __restrict__ {name}", "const {type} {name}")
    x, y, z = launch.block
    resident = launch.kernel.attrs.get(RESIDENT)
    bounds = f"__launch_bounds__({x * y * z}{f', {resident}' if resident else ''})"
    return f'extern "C" __global__ void {bounds} {launch.kernel.name}({", ".join(parameters)}) {{'


# With tensor cores, float16 is the type that <mma.h> knows; without, the text needs no header at all.
_FRAGMENTS = replace(
    CUDA,
    types={**CUDA.types, "float16": "half"},
    conversions={**CONVERSIONS, ("float16", "float32"): "__half2float", ("float32", "float16"): "__float2half_rn"},
    array="{scope}__align__(32) {type} {name}[{size}];",  # as tiles in memory must be
    effects={**CUDA.effects, **FRAGMENT_CALLS},
    arrays={**CUDA.arrays, **dict.fromkeys(FRAGMENT_SCOPES, fragment_array)},
)

_PLAIN = Language(
    dialect=CUDA,
    prelude="\n".join(
        [
            _BITS,
            f"#ifdef __CUDACC_RTC__\n{_CONVERSIONS}\n#else",
            half_functions("__device__ __forceinline__ ", "unsigned short", "unsigned int", "__uint_as_float",
                           "__float_as_uint"),
            "#endif",
            division_functions("__device__ __forceinline__ ", {**_SIGNED, **_UNSIGNED}),
        ]
    ),
    head=_head,
    native=NATIVE | {"exp2_approx", "tanh", "erf", "erfc", "pow"},
    widest_access=16,
    functions=called_functions,
    reserved=(*C_KEYWORDS, "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"),
)  # fmt: skip

CUDA_C = replace(
    _PLAIN,
    for_fragments=replace(
        _PLAIN, dialect=_FRAGMENTS, prelude=f"#include <cuda_fp16.h>\n#include <mma.h>\n{_PLAIN.prelude}"
    ),
)
