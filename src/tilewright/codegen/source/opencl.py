"""OpenCL C 1.2: one `__kernel` per kernel (Khronos OpenCL 1.2 specification, chapter 6)."""

from __future__ import annotations

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.c import C_KEYWORDS
from tilewright.codegen.source.dialect import Dialect, float_names
from tilewright.codegen.source.gpu import NATIVE, Language, parameter_list
from tilewright.codegen.source.half import CONVERSIONS, half_functions
from tilewright.codegen.source.literals import c_literal, division_functions
from tilewright.codegen.source.opencl_vectors import has_vector
from tilewright.tir.transform.split_host_device import Launch

_SIGNED = {"int8": "char", "int16": "short", "int32": "int", "int64": "long"}
_INTEGERS = {**_SIGNED, **{f"u{name}": f"u{spelled}" for name, spelled in _SIGNED.items()}}
_MATH = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt tanh erf erfc lgamma tgamma sin cos tan asin acos atan sinh "
    "cosh asinh acosh atanh floor ceil trunc round=rint fabs abs=fabs pow fmod atan2 hypot copysign fma"
)

OPENCL_WORDS = (
    "kernel",
    "global",
    "local",
    "constant",
    "private",
    "half",
    "quad",
    "complex",
    "imaginary",
    "event_t",
    *C_KEYWORDS,
)

OPENCL = Dialect(
    name="OpenCL",
    types={"bool": "bool", **_INTEGERS, "float32": "float", "float64": "double", "float16": "ushort",
           "bfloat16": "ushort"},
    memory_types={"bool": "uchar"},
    functions={**float_names(_MATH, {"float32": "", "float64": ""}),
               **{("popcount", t): "popcount" for t in _INTEGERS}, **{("clz", t): "clz" for t in _INTEGERS}},
    conversions=CONVERSIONS,
    literal=lambda dtype, value: c_literal(dtype, value, wide="l"),
    threads={f"{kind}.{axis}": f"(int){function}({i})" for kind, function in
             (("blockIdx", "get_group_id"), ("threadIdx", "get_local_id")) for i, axis in enumerate("xyz")},
    barriers={"shared": "barrier(CLK_LOCAL_MEM_FENCE);"},
    scopes={"local": "", "shared": "__local "},
    reinterpret="as_{target}({value})",
    vector_type="{type}{lanes}",
    vector_load="vload{lanes}(0, {name} + {index})",
    vector_store="vstore{lanes}({value}, 0, {name} + {index});",
)  # fmt: skip


def _head(launch: Launch, b: SourceBuilder) -> str:
    parameters = parameter_list(launch, b, "__global {const}{type}* restrict {name}", "const {type} {name}")
    x, y, z = launch.block
    size = f"__attribute__((reqd_work_group_size({x}, {y}, {z})))"
    return f"__kernel {size} void {launch.kernel.name}({', '.join(parameters)}) {{"


OPENCL_C = Language(
    dialect=OPENCL,
    prelude="\n".join(
        [
            "#pragma OPENCL FP_CONTRACT ON",
            half_functions("", "ushort", "uint", "as_float", "as_uint"),
            division_functions("", _INTEGERS),
        ]
    ),
    head=_head,
    native=NATIVE | {"tanh", "erf", "erfc", "pow"},
    reserved=OPENCL_WORDS,
    has_vector=has_vector,
)
