"""WGSL, the language of WebGPU: one entry point per kernel (W3C, WebGPU Shading Language).

Scalars come in one uniform structure a kernel, in the order of its parameters. The language has 32-bit numbers only,
and no constant that is infinite: those are read from variables.
"""

from __future__ import annotations

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.dialect import Dialect, float_names
from tilewright.codegen.source.gpu import NATIVE, Language
from tilewright.codegen.source.literals import c_literal
from tilewright.errors import UnsupportedError
from tilewright.tir.buffer import Buffer
from tilewright.tir.transform.split_host_device import Launch

_MATH = (
    "exp exp2 log log2 log10=tilewright_log10 sqrt rsqrt=inverseSqrt sin cos tan asin acos atan sinh "
    "cosh asinh acosh atanh floor ceil trunc round fabs=abs abs atan2 fma"
)
# In parentheses: `a < bitcast<f32>(b)` reads as a template of `a`.
_INFINITY, _NAN = "(bitcast<f32>(tilewright_infinity))", "(bitcast<f32>(tilewright_nan))"
_STORED = ("int32", "uint32", "float32")


WGSL = Dialect(
    name="WGSL",
    types={"bool": "bool", "int32": "i32", "uint32": "u32", "float32": "f32"},
    functions={**float_names(_MATH, {"float32": ""}), ("popcount", "int32"): "countOneBits",
               ("clz", "int32"): "countLeadingZeros", ("fmod", "float32"): "tilewright_fmod"},
    literal=lambda dtype, value: c_literal(dtype, value, _INFINITY, _NAN),
    threads={f"{kind}.{axis}": f"i32({kind}.{axis})" for kind in ("blockIdx", "threadIdx") for axis in "xyz"},
    barriers={"shared": "workgroupBarrier();"},
    scopes={"local": "var", "shared": "var<workgroup>"},
    cast="{type}({value})",
    select="select({false}, {true}, {condition})",
    constant="let {name}: {type} = {value};",
    variable="var {name}: {type};",
    array="{scope} {name}: array<{type}, {size}>;",
    loop="for (var {name}: {type} = {first}; {name} < {end}; {name} += 1) {{",
    loop_forever="loop {",
    reinterpret="bitcast<{target}>({value})",
    pointers=False,
    position="// {file}:{line}",
)  # fmt: skip

_PRELUDE = """\
fn tilewright_log10(x: f32) -> f32 { return log(x) * 0.4342944819032518; }
var<private> tilewright_infinity: u32 = 0x7f800000u;
var<private> tilewright_nan: u32 = 0x7fc00000u;
fn tilewright_fmod(a: f32, b: f32) -> f32 { return a - b * trunc(a / b); }
fn tilewright_truncdiv_int32(a: i32, b: i32) -> i32 { return select(a / b, 0, b == 0); }
fn tilewright_truncmod_int32(a: i32, b: i32) -> i32 { return a % b; }
fn tilewright_truncdiv_uint32(a: u32, b: u32) -> u32 { return select(a / b, 0u, b == 0u); }
fn tilewright_truncmod_uint32(a: u32, b: u32) -> u32 { return a % b; }
fn tilewright_floordiv_int32(a: i32, b: i32) -> i32 {
  let q: i32 = tilewright_truncdiv_int32(a, b);
  return select(q, q - 1, a % b != 0 && ((a < 0) != (b < 0)));
}
fn tilewright_floormod_int32(a: i32, b: i32) -> i32 {
  let r: i32 = a % b;
  return select(r, r + b, r != 0 && ((r < 0) != (b < 0)));
}"""


def _head(launch: Launch, b: SourceBuilder) -> str:
    lines, fields, values = [], [], []
    for binding, param in enumerate(launch.kernel.params):
        if str(param.dtype) not in _STORED:
            raise UnsupportedError(
                f"WGSL code cannot take {param.name} of {param.dtype}; WebGPU's buffers hold: {', '.join(_STORED)}"
            )
        if isinstance(param, Buffer):
            kind = WGSL.memory_type(param.dtype)
            # `read` beside `read_write` would be refused where both are parts of one buffer, such as a model's arena
            lines.append(f"@group(0) @binding({binding}) var<storage, read_write> {b.name(param)}: array<{kind}>;")
        else:
            fields.append(f"  {b.name(param)}: {WGSL.type_name(param.dtype)},")
            values.append(f"  let {b.name(param)} = {launch.kernel.name}_scalars.{b.name(param)};")
    if fields:
        scalars = f"{launch.kernel.name}_scalars"
        binding = sum(isinstance(p, Buffer) for p in launch.kernel.params)
        lines += [f"struct {scalars}_type {{", *fields, "}"]
        lines.append(f"@group(0) @binding({binding}) var<uniform> {scalars}: {scalars}_type;")
    builtins = "@builtin(workgroup_id) blockIdx: vec3<u32>, @builtin(local_invocation_id) threadIdx: vec3<u32>"
    lines.append(f"@compute @workgroup_size({', '.join(map(str, launch.block))})")
    lines.append(f"fn {launch.kernel.name}({builtins}) {{")
    return "\n".join([*lines, *values])


_WORDS = (
    "fn let var const loop switch if else for while return true false struct array vec3 i32 u32 f32 bool main enable"
)
WEBGPU_SL = Language(
    dialect=WGSL,
    prelude=_PRELUDE,
    head=_head,
    native=NATIVE,
    reserved=(*_WORDS.split(), "blockIdx", "threadIdx"),
    module_scope=True,
    reorders_sums=True,
)
