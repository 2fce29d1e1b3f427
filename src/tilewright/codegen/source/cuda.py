"""CUDA C++: one `__global__` function per kernel (NVIDIA, CUDA C++ Programming Guide)."""

from __future__ import annotations

from dataclasses import replace

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.c import C_KEYWORDS
from tilewright.codegen.source.dialect import Dialect, float_names
from tilewright.codegen.source.gpu import NATIVE, Language, parameter_list
from tilewright.codegen.source.half import CONVERSIONS, half_functions
from tilewright.codegen.source.literals import c_literal, division_functions
from tilewright.codegen.source.wmma import FRAGMENT_CALLS, fragment_array
from tilewright.tir.transform.split_host_device import Launch
from tilewright.tir.warp_matrix import FRAGMENT_SCOPES

_SIGNED = {"int8": "signed char", "int16": "short", "int32": "int", "int64": "long long"}
_UNSIGNED = {"uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
             "uint64": "unsigned long long"}  # fmt: skip
_MATH = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt tanh erf erfc lgamma tgamma sin cos tan asin acos atan sinh "
    "cosh asinh acosh atanh floor ceil trunc round=rint fabs abs=fabs pow fmod atan2 hypot copysign fma"
)

_SHUFFLES = {(f"warp_{name}", dtype): f"tilewright_{name}" for name in ("shuffle", "shuffle_down")
             for dtype in ("bool", *_SIGNED, *_UNSIGNED, "float32", "float64")}  # fmt: skip

CUDA = Dialect(
    name="CUDA",
    types={"bool": "bool", **_SIGNED, **_UNSIGNED, "float32": "float", "float64": "double", "float16": "unsigned short",
           "bfloat16": "unsigned short"},
    functions={**float_names(_MATH, {"float32": "f", "float64": ""}), **_SHUFFLES, ("popcount", "int32"): "__popc",
               ("popcount", "uint32"): "__popc", ("clz", "int32"): "__clz", ("clz", "uint32"): "__clz"},
    conversions=CONVERSIONS,
    literal=lambda dtype, value: c_literal(dtype, value, "tilewright_infinity()", "tilewright_nan()"),
    threads={f"{kind}.{axis}": f"(int){kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz"},
    barriers={"shared": "__syncthreads();", "warp": "__syncwarp();"},
    scopes={"local": "", "shared": "__shared__ "},
    array="{scope}{type} {name}[{size}];",
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


def _head(launch: Launch, b: SourceBuilder) -> str:
    parameters = parameter_list(launch, b, "{const}{type}* __restrict__ {name}", "const {type} {name}")
    x, y, z = launch.block
    bounds = f"__launch_bounds__({x * y * z})"
    return f'extern "C" __global__ void {bounds} {launch.kernel.name}({", ".join(parameters)}) {{'


# With tensor cores, float16 is the type that <mma.h> knows; without, the text needs no header at all.
_FRAGMENTS = replace(
    CUDA,
    types={**CUDA.types, "float16": "half"},
    conversions={**CONVERSIONS, ("float16", "float32"): "__half2float", ("float32", "float16"): "__float2half_rn"},
    array="{scope}__align__(32) {type} {name}[{size}];",  # as tiles in memory must be
    effects=FRAGMENT_CALLS,
    arrays=dict.fromkeys(FRAGMENT_SCOPES, fragment_array),
)

_PLAIN = Language(
    dialect=CUDA,
    prelude="\n".join(
        [
            _BITS,
            half_functions("__device__ __forceinline__ ", "unsigned short", "unsigned int", "__uint_as_float",
                           "__float_as_uint"),
            division_functions("__device__ __forceinline__ ", {**_SIGNED, **_UNSIGNED}),
        ]
    ),
    head=_head,
    native=NATIVE | {"tanh", "erf", "erfc", "pow"},
    reserved=(*C_KEYWORDS, "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"),
)  # fmt: skip

CUDA_C = replace(
    _PLAIN,
    for_fragments=replace(
        _PLAIN, dialect=_FRAGMENTS, prelude=f"#include <cuda_fp16.h>\n#include <mma.h>\n{_PLAIN.prelude}"
    ),
)
