"""GLSL for Vulkan: one module per kernel (Khronos, GLSL 4.60 and GL_EXT_buffer_reference).

A kernel's only push constant is the address of a block of its arguments: addresses of buffers, and numbers. Buffers are
macros that stand for what lies at their address. The text of each kernel follows a line with its name, by which it is
taken apart again: each is a module of its own, together with the text before the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.dialect import Dialect, float_names
from tilewright.codegen.source.gpu import NATIVE, Language
from tilewright.codegen.source.half import CONVERSIONS, half_functions
from tilewright.codegen.source.literals import c_literal, division_functions
from tilewright.support.dtype import DType
from tilewright.tir.buffer import Buffer
from tilewright.tir.transform.split_host_device import Launch

_WIDE = {"int32": "int", "uint32": "uint", "int64": "int64_t", "uint64": "uint64_t"}
_NARROW = {"int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "uint16": "uint16_t"}
_TYPES = {"bool": "bool", **_NARROW, **_WIDE, "float32": "float", "float64": "double", "float16": "uint16_t",
          "bfloat16": "uint16_t"}  # fmt: skip
_MATH = (
    "exp exp2 log log2 rsqrt=inversesqrt sqrt sin cos tan asin acos atan sinh cosh asinh acosh atanh floor ceil trunc "
    "round=roundEven fabs=abs atan2=atan fma fmod=tilewright_fmod log10=tilewright_log10"
)
_MATH64 = "sqrt rsqrt=inversesqrt floor ceil trunc round=roundEven fabs=abs fma fmod=tilewright_fmod"


def _literal(dtype: DType, value: Any) -> str:
    """Constants of narrow integers are made by a conversion, those of 64-bit floats end in lf."""
    suffix = "64" if str(dtype) == "float64" else ""
    text = c_literal(dtype, value, f"tilewright_infinity{suffix}()", f"tilewright_nan{suffix}()", wide="l")
    if str(dtype) in _NARROW:
        return f"{_NARROW[str(dtype)]}({text})"
    plain = not suffix or "tilewright" in text
    return text if plain else f"{text[:-1]}lf)" if text.endswith(")") else f"{text}lf"


GLSL = Dialect(
    name="GLSL",
    types=_TYPES,
    memory_types={"bool": "uint8_t"},
    functions={**float_names(_MATH, {"float32": ""}), **float_names(_MATH64, {"float64": ""}),
               **{("popcount", t): "bitCount" for t in ("int32", "uint32")},
               **{("clz", t): "tilewright_clz" for t in ("int32", "uint32")}},
    conversions=CONVERSIONS,
    literal=_literal,
    threads={f"{kind}.{axis}": f"int({function}.{axis})" for kind, function in
             (("blockIdx", "gl_WorkGroupID"), ("threadIdx", "gl_LocalInvocationID")) for axis in "xyz"},
    barriers={"shared": "barrier();"},
    scopes={"local": "", "shared": "shared "},
    cast="{type}({value})",
    reinterpret="tilewright_as_{target}({value})",
    pointers=False,
    position="// {file}:{line}",
)  # fmt: skip

_EXTENSIONS = (
    "GL_EXT_buffer_reference", "GL_EXT_shader_explicit_arithmetic_types", "GL_EXT_shader_8bit_storage",
    "GL_EXT_shader_16bit_storage",
)  # fmt: skip
_NARROW_SIZES = {"int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2}
#: Bytes of types of one word, by which references are aligned.
WORD_SIZES = {"int": 4, "uint": 4, "float": 4}
_WIDE_SIZES = {"int64_t": 8, "uint64_t": 8, "double": 8}


def references(sizes: Mapping[str, int]) -> list[str]:
    """References to arrays of each type, aligned to an element: parts of an arena begin anywhere."""
    return [
        f"layout(buffer_reference, std430, buffer_reference_align = {size}) buffer tilewright_{kind} "
        f"{{ {kind} tilewright_at[]; }};"
        for kind, size in sizes.items()
    ]


#: Of 32 bits.
WORD_FUNCTIONS = """\
float tilewright_infinity() { return uintBitsToFloat(0x7f800000u); }
float tilewright_nan() { return uintBitsToFloat(0x7fc00000u); }
float tilewright_log10(float x) { return log(x) * 0.4342944819032518f; }
float tilewright_fmod(float a, float b) { return a - b * trunc(a / b); }
int tilewright_clz(int x) { return 31 - findMSB(uint(x)); }
int tilewright_clz(uint x) { return 31 - findMSB(x); }
float tilewright_as_float(int x) { return intBitsToFloat(x); }
float tilewright_as_float(uint x) { return uintBitsToFloat(x); }
int tilewright_as_int(float x) { return floatBitsToInt(x); }
uint tilewright_as_uint(float x) { return floatBitsToUint(x); }"""
_OTHER_FUNCTIONS = """\
double tilewright_infinity64() { return packDouble2x32(uvec2(0u, 0x7ff00000u)); }
double tilewright_nan64() { return packDouble2x32(uvec2(0u, 0x7ff80000u)); }
double tilewright_fmod(double a, double b) { return a - b * trunc(a / b); }
double tilewright_as_double(int64_t x) { return packDouble2x32(unpackUint2x32(uint64_t(x))); }
double tilewright_as_double(uint64_t x) { return packDouble2x32(unpackUint2x32(x)); }
int64_t tilewright_as_int64_t(double x) { return int64_t(packUint2x32(unpackDouble2x32(x))); }
uint64_t tilewright_as_uint64_t(double x) { return packUint2x32(unpackDouble2x32(x)); }
int16_t tilewright_as_int16_t(uint16_t x) { return int16_t(x); }
uint16_t tilewright_as_uint16_t(int16_t x) { return uint16_t(x); }"""


def constructed(text: str) -> str:
    """C's casts as conversions; a bit as a condition; remainders, which GLSL has of positive numbers, by products."""
    kinds = "|".join({*_TYPES.values()})
    text = re.sub(rf"\(({kinds})\)(\w+|(?=\())", lambda m: f"{m[1]}({m[2]})" if m[2] else m[1], text)
    return text.replace("a % b", "a - a / b * b").replace("(result & 1u)", "(result & 1u) != 0u")


def _narrow_division(dtype: str, kind: str) -> str:
    """Division of 8 and 16 bits, of which GLSL does not narrow the result by itself, through 32 bits."""
    wide, spelled = ("uint32", "uint") if dtype.startswith("u") else ("int32", "int")
    return "\n".join(
        f"{kind} tilewright_{name}_{dtype}({kind} a, {kind} b) "
        f"{{ return {kind}(tilewright_{name}_{wide}({spelled}(a), {spelled}(b))); }}"
        for name in ("truncdiv", "truncmod", *(() if dtype.startswith("u") else ("floordiv", "floormod")))
    )


def _prelude() -> str:
    lines = ["#version 460", *(f"#extension {name} : require" for name in _EXTENSIONS)]
    lines += [*references(_NARROW_SIZES | WORD_SIZES | _WIDE_SIZES), WORD_FUNCTIONS, _OTHER_FUNCTIONS]
    lines.append(constructed(half_functions("", "uint16_t", "uint", "uintBitsToFloat", "floatBitsToUint")))
    lines.append(constructed(division_functions("", _WIDE)))
    return "\n".join([*lines, *(_narrow_division(dtype, kind) for dtype, kind in _NARROW.items())])


def _parameter(param: Any, b: SourceBuilder) -> tuple[str, str]:
    """The type of a parameter in the block of arguments, and what is read of it."""
    if isinstance(param, Buffer):
        return f"tilewright_{b.dialect.memory_type(param.dtype)}", ".tilewright_at"
    return b.dialect.type_name(param.dtype), ""


def _head(launch: Launch, b: SourceBuilder) -> str:
    return head_of(launch, b, _parameter)


def head_of(launch: Launch, b: SourceBuilder, parameter: Callable[[Any, SourceBuilder], tuple[str, str]]) -> str:
    """The lines that open a kernel whose block of arguments has these types."""
    fields, macros, values = [], [], []  # members with a prefix: macros have the names of buffers
    for i, param in enumerate(launch.kernel.params):
        name, (kind, part) = b.name(param), parameter(param, b)
        fields.append(f"  {kind} tilewright_p{i};")
        value = f"tilewright_push.tilewright_args.tilewright_p{i}{part}"
        if isinstance(param, Buffer):
            macros.append(f"#define {name} {value}")
        else:
            values.append(f"  const {b.dialect.type_name(param.dtype)} {name} = {value};")
    x, y, z = launch.block
    return "\n".join(
        [
            f"layout(local_size_x = {x}, local_size_y = {y}, local_size_z = {z}) in;",
            "layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer tilewright_block {",
            *fields,
            "};",
            "layout(push_constant) uniform tilewright_constants { tilewright_block tilewright_args; } tilewright_push;",
            *macros,
            "void main() {",
            *values,
        ]
    )


_WORDS = (
    "attribute const uniform varying buffer shared coherent volatile restrict readonly writeonly layout centroid flat "
    "smooth noperspective patch sample subroutine precise invariant precision highp mediump lowp in out inout void "
    "struct if else switch case default for while do break continue discard return true false common partition active "
    "asm class union enum typedef template this resource goto inline noinline public static extern external interface "
    "long short half fixed unsigned superp input output filter sizeof cast namespace using main abs sign floor ceil "
    "trunc round fract mod min max clamp mix step smoothstep length distance dot cross normalize pow exp log exp2 log2 "
    "sqrt inversesqrt sin cos tan asin acos atan radians degrees any all not equal determinant inverse transpose"
)
_VECTORS = [f"{kind}{n}" for kind in ("vec", "ivec", "uvec", "bvec", "dvec", "mat", "dmat") for n in (2, 3, 4)]
VULKAN_GLSL = Language(
    dialect=GLSL,
    prelude=_prelude(),
    head=_head,
    native=NATIVE,
    reserved=(*_WORDS.split(), *_VECTORS, *_TYPES.values(), *"xyz"),  # the last: members of gl_WorkGroupID
    module_scope=True,
    reorders_sums=True,
    divider="// kernel {name}",
)
