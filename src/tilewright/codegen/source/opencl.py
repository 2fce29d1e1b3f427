"""OpenCL C 1.2: one `__kernel` per kernel (Khronos OpenCL 1.2 specification, chapter 6)."""

from __future__ import annotations

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.c import C_KEYWORDS
from tilewright.codegen.source.dialect import Dialect, float_names
from tilewright.codegen.source.gpu import NATIVE, Language, parameter_list
from tilewright.codegen.source.half import CONVERSIONS, half_functions
from tilewright.codegen.source.literals import c_literal, division_functions
from tilewright.tir.expr import BufferLoad, Call
from tilewright.tir.float_vectors import LANES, has_vector
from tilewright.tir.transform.split_host_device import Launch

_SIGNED = {"int8": "char", "int16": "short", "int32": "int", "int64": "long"}
_INTEGERS = {**_SIGNED, **{f"u{name}": f"u{spelled}" for name, spelled in _SIGNED.items()}}
_MATH = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt tanh erf erfc lgamma tgamma sin cos tan asin acos atan sinh "
    "cosh asinh acosh atanh floor ceil trunc round=rint fabs abs=fabs pow fmod atan2 hypot copysign fma"
)

#: Functions of the language that take vectors, and that no pass writes out in other terms.
VECTOR_FUNCTIONS = frozenset(
    ["fma", "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "fabs", "floor", "ceil", "round", "trunc"]
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
    "prefetch_line",
    *(f"floats{lanes}" for lanes in LANES),
    *C_KEYWORDS,
)


def _prefetch(b: SourceBuilder, call: Call) -> None:
    """A hint that memory will be used soon: all levels of cache get it, or those that the third argument leaves."""
    load, *hints = call.args
    if isinstance(load, BufferLoad):
        level = b.value(hints[-1]) if hints else "3"
        b.line(f"prefetch_line({b.name(load.buffer)} + {b.value(load.indices[0])}, {level});")


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
    # not `vload`: where a driver's library is made for another processor than the kernel, as PoCL's may be, that is a
    # call for each vector, before which all others go to memory
    vector_load="((const {space} floats{lanes}*)({name} + {index}))->v",
    vector_store="(({space} floats{lanes}*)({name} + {index}))->v = {value};",
    array="{scope}{type} {name}[{size}] __attribute__((aligned(64)));",  # of the longest vector
    effects={"prefetch": _prefetch},
    spaces={"global": "__global", "shared": "__local", "local": "__private"},
)  # fmt: skip

#: Vectors as they lie in memory, at the alignment of their elements (OpenCL 1.2, section 6.11.1).
_VECTORS_IN_MEMORY = "\n".join(
    f"typedef struct __attribute__((packed, aligned(4))) {{ float{lanes} v; }} floats{lanes};" for lanes in LANES
)

#: OpenCL's own `prefetch` is a function, with what calls of such cost on PoCL.
_PREFETCH = """\
#ifdef __clang__
#define prefetch_line(address, level) __builtin_prefetch((const void*)(size_t)(address), 0, level)
#else
#define prefetch_line(address, level)
#endif"""


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
            _VECTORS_IN_MEMORY,
            _PREFETCH,
            half_functions("", "ushort", "uint", "as_float", "as_uint"),
            division_functions("", _INTEGERS),
        ]
    ),
    head=_head,
    native=NATIVE | {"tanh", "erf", "erfc", "pow"},
    reserved=OPENCL_WORDS,
    has_vector=lambda store: has_vector(store, VECTOR_FUNCTIONS),
)
