"""Metal Shading Language 2: one `kernel` function per kernel (Apple, Metal Shading Language Specification)."""

from __future__ import annotations

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.c import C_KEYWORDS
from tilewright.codegen.source.dialect import Dialect, float_names
from tilewright.codegen.source.gpu import Language, parameter_list
from tilewright.codegen.source.half import CONVERSIONS, half_functions
from tilewright.codegen.source.literals import c_literal, floor_division
from tilewright.tir.transform.split_host_device import Launch

_SIGNED = {"int8": "char", "int16": "short", "int32": "int", "int64": "long"}
_INTEGERS = {**_SIGNED, **{f"u{name}": f"u{spelled}" for name, spelled in _SIGNED.items()}}
_MATH = (
    "exp exp2 log log2 log10 sqrt rsqrt tanh sin cos tan asin acos atan sinh cosh asinh acosh atanh floor ceil trunc "
    "round=rint fabs abs=fabs pow fmod atan2 copysign fma"
)

METAL = Dialect(
    name="Metal",
    types={"bool": "bool", **_INTEGERS, "float32": "float", "float16": "ushort", "bfloat16": "ushort"},
    functions={**float_names(_MATH, {"float32": ""}), ("popcount", "int32"): "popcount", ("clz", "int32"): "clz"},
    conversions=CONVERSIONS,
    literal=lambda dtype, value: c_literal(dtype, value).replace("ull", "ul").replace("ll", "l"),
    threads={f"{kind}.{axis}": f"(int){kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz"},
    barriers={"shared": "threadgroup_barrier(mem_flags::mem_threadgroup);"},
    scopes={"local": "", "shared": "threadgroup "},
    reinterpret="as_type<{target}>({value})",
)


def _head(launch: Launch, b: SourceBuilder) -> str:
    buffer, scalar = "device {const}{type}* {name} [[buffer({place})]]", "constant {type}& {name} [[buffer({place})]]"
    parameters = parameter_list(launch, b, buffer, scalar)
    parameters.append("uint3 blockIdx [[threadgroup_position_in_grid]]")
    parameters.append("uint3 threadIdx [[thread_position_in_threadgroup]]")
    return f"kernel void {launch.kernel.name}({', '.join(parameters)}) {{"


METAL_SL = Language(
    dialect=METAL,
    prelude="\n".join(
        [
            "#include <metal_stdlib>",
            "using namespace metal;",
            half_functions("static inline ", "ushort", "uint", "as_type<float>", "as_type<uint>"),
            floor_division("static inline ", _SIGNED),
        ]
    ),
    head=_head,
    native=frozenset({"exp", "log", "tanh", "pow", "sin", "cos", "tan", "rsqrt"}),
    reserved=(*C_KEYWORDS, "kernel", "device", "constant", "thread", "threadgroup", "half", "blockIdx", "threadIdx"),
)
