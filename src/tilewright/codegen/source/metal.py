"""Metal Shading Language 2: one `kernel` function per kernel (Apple, Metal Shading Language Specification)."""

from __future__ import annotations

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.c import C_KEYWORDS
from tilewright.codegen.source.dialect import Dialect, float_names
from tilewright.codegen.source.gpu import NATIVE, Language, parameter_list
from tilewright.codegen.source.half import CONVERSIONS, half_functions
from tilewright.codegen.source.literals import c_literal, division_functions
from tilewright.tir.transform.split_host_device import Launch

_SIGNED = {"int8": "char", "int16": "short", "int32": "int", "int64": "long"}
_INTEGERS = {**_SIGNED, **{f"u{name}": f"u{spelled}" for name, spelled in _SIGNED.items()}}
_MATH = (
    "exp exp2 log log2 log10 sqrt rsqrt tanh sin cos tan asin acos atan sinh cosh asinh acosh atanh floor ceil trunc "
    "round=rint fabs abs=fabs pow fmod atan2 copysign fma"
)

_SHUFFLES = {(f"warp_{name}", dtype): f"tilewright_{name}" for name in ("shuffle", "shuffle_down")
             for dtype in ("bool", *_INTEGERS, "float32")}  # fmt: skip

METAL = Dialect(
    name="Metal",
    types={"bool": "bool", **_INTEGERS, "float32": "float", "float16": "ushort", "bfloat16": "ushort"},
    functions={
        **float_names(_MATH, {"float32": ""}),
        **_SHUFFLES,
        ("popcount", "int32"): "popcount",
        ("clz", "int32"): "clz",
    },
    conversions=CONVERSIONS,
    literal=lambda dtype, value: c_literal(dtype, value, wide="l"),
    threads={f"{kind}.{axis}": f"(int){kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz"},
    barriers={"shared": "threadgroup_barrier(mem_flags::mem_threadgroup);"},
    scopes={"local": "", "shared": "threadgroup "},
    reinterpret="as_type<{target}>({value})",
)


# What `simd_shuffle` does not take goes in parts that it does: 64 bits as two words, the smallest integers as one.
_SHUFFLE = """\
template <class T> inline T tilewright_take(T value, ushort lane) {
  if (sizeof(T) < 4) return (T)simd_shuffle((int)value, lane);
  return simd_shuffle(value, lane);
}
inline ulong tilewright_take(ulong value, ushort lane) {
  return (ulong)simd_shuffle((uint)(value >> 32), lane) << 32 | simd_shuffle((uint)value, lane);
}
inline long tilewright_take(long value, ushort lane) { return (long)tilewright_take((ulong)value, lane); }
#define tilewright_shuffle(value, lane, width) \\
  tilewright_take(value, (ushort)(laneIdx / (width) * (width) + (lane) % (width)))
#define tilewright_shuffle_down(value, step, width) \\
  tilewright_take(value, (ushort)(laneIdx % (width) + (step) < (width) ? laneIdx + (step) : laneIdx))"""


def _head(launch: Launch, b: SourceBuilder) -> str:
    buffer = "device {const}{type}* {name} [[buffer({position})]]"
    scalar = "constant {type}& {name} [[buffer({position})]]"
    parameters = parameter_list(launch, b, buffer, scalar)
    parameters.append("uint3 blockIdx [[threadgroup_position_in_grid]]")
    parameters.append("uint3 threadIdx [[thread_position_in_threadgroup]]")
    parameters.append("uint laneIdx [[thread_index_in_simdgroup]]")
    return f"kernel void {launch.kernel.name}({', '.join(parameters)}) {{"


METAL_SL = Language(
    dialect=METAL,
    prelude="\n".join(
        [
            "#include <metal_stdlib>",
            "using namespace metal;",
            half_functions("static inline ", "ushort", "uint", "as_type<float>", "as_type<uint>"),
            _SHUFFLE,
            division_functions("static inline ", _INTEGERS),
        ]
    ),
    head=_head,
    native=NATIVE | {"tanh", "pow"},
    reserved=(
        *C_KEYWORDS,
        "kernel",
        "device",
        "constant",
        "thread",
        "threadgroup",
        "half",
        "blockIdx",
        "threadIdx",
        "laneIdx",
    ),
)
