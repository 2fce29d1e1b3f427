"""WGSL, the language of WebGPU: one entry point per kernel (W3C, WebGPU Shading Language).

Scalars come in one uniform structure a kernel, in the order of its parameters. The language has 32-bit numbers only,
and no constant that is infinite: those are read from variables. Other elements are parts of words, or two (`words`).
A float16 is a float32 of such a value in registers; in memory it is half a word, or, where the device has `shader-f16`,
an element: the text has both, of which a device takes one (`runtime/gpu/wgsl_features.py`).
"""

from __future__ import annotations

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.dialect import Dialect, entry, float_names
from tilewright.codegen.source.gpu import NATIVE, Language
from tilewright.codegen.source.words import PACKED, Words, check_scalar, word_literal
from tilewright.runtime.gpu.wgsl_features import HALF, SUBGROUPS, either
from tilewright.support.dtype import DType
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Call
from tilewright.tir.transform.split_host_device import Launch
from tilewright.tir.visitor import collect

_MATH = (
    "exp exp2 log log2 log10=tilewright_log10 sqrt rsqrt=inverseSqrt sin cos tan asin acos atan sinh "
    "cosh asinh acosh atanh floor ceil trunc round fabs=abs abs atan2 fma"
)
#: Bytes of an element that is a word in memory.
_WORD = 4
# In parentheses: `a < bitcast<f32>(b)` reads as a template of `a`.
_INFINITY, _NAN = "(bitcast<f32>(tilewright_infinity))", "(bitcast<f32>(tilewright_nan))"
_WORDS = Words(
    int32="i32",
    uint32="u32",
    operand="&{at}",
    value="atomicLoad(&{at})",
    count="u32({count})",
    extract="extractBits({value}, {first}, {bits}u)",
)


def _literal(dtype: DType, value: float | int) -> str:
    return word_literal("WGSL", dtype, value, _INFINITY, _NAN)


#: The types of values that a thread reads of others in its subgroup.
_SHUFFLED = {"float32": "f32", "float16": "f32", "int32": "i32", "uint32": "u32"}
WGSL = Dialect(
    name="WGSL",
    types={"bool": "bool", "float32": "f32", **_WORDS.types(), "float16": "f32"},
    loads={**_WORDS.loads(), "float16": "tilewright_load_{name}({index})"},
    stores={**_WORDS.stores(), "float16": ("tilewright_store_{name}({index}, {value});",)},
    narrow=_WORDS.narrow(),
    conversions={("float32", "float16"): "tilewright_round_half", ("bfloat16", "float32"): "tilewright_from_bfloat",
                 ("float32", "bfloat16"): "tilewright_to_bfloat"},
    functions={**float_names(_MATH, {"float32": ""}), ("popcount", "int32"): "countOneBits",
               ("clz", "int32"): "countLeadingZeros", ("fmod", "float32"): "tilewright_fmod",
               **{(f"subgroup_{name}", dtype): f"tilewright_{name}_{spelled}" for name in ("shuffle", "shuffle_down")
                  for dtype, spelled in _SHUFFLED.items()},
               ("reinterpret_uint16", "float16"): "tilewright_to_half",
               ("reinterpret_int16", "float16"): "tilewright_to_half_int",
               ("reinterpret_float16", "uint16"): "tilewright_from_half",
               ("reinterpret_float16", "int16"): "tilewright_from_half_int"},
    literal=_literal,
    threads={**{f"{kind}.{axis}": f"i32({kind}.{axis})" for kind in ("blockIdx", "threadIdx") for axis in "xyz"},
             "subgroup_size": "i32(subgroupSize)", "subgroup_lane": "i32(subgroupLane)"},
    choices={"has_subgroups": (f"//#if {SUBGROUPS}", "//#else", "//#end")},
    barriers={"shared": "workgroupBarrier();"},
    scopes={"local": "var", "shared": "var<workgroup>"},
    cast="{type}({value})",
    select="select({false}, {true}, {condition})",
    constant="let {name}: {type} = {value};",
    variable="var {name}: {type};",
    array="{scope} {name}: array<{type}, {size}>;",
    loop="for (var {name}: {type} = {first}; {name} < {end}; {name} += 1) {{",
    loop_forever="loop {",
    shift="({value} {symbol} u32({count}))",
    reinterpret="bitcast<{target}>({value})",
    pointers=False,
    short_circuits=False,
    position="// {file}:{line}",
)  # fmt: skip

_BASE = """\
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
}
fn tilewright_from_half(h: u32) -> f32 {
  let sign: u32 = (h & 0x8000u) << 16u;
  let magnitude: u32 = h & 0x7fffu;
  if (magnitude >= 0x7c00u) { return bitcast<f32>(sign | 0x7f800000u | (magnitude << 13u)); }
  if (magnitude >= 0x0400u) { return bitcast<f32>(sign | ((magnitude << 13u) + 0x38000000u)); }
  return bitcast<f32>(bitcast<u32>(f32(magnitude) * 5.9604644775390625e-8f) | sign);
}
fn tilewright_to_half(f: f32) -> u32 {
  let bits: u32 = bitcast<u32>(f);
  let sign: u32 = (bits >> 16u) & 0x8000u;
  let magnitude: u32 = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) { return sign | 0x7e00u | ((magnitude >> 13u) & 0x1ffu); }
  if (magnitude >= 0x477ff000u) { return sign | 0x7c00u; }
  if (magnitude >= 0x38800000u) {
    return sign | ((magnitude + 0x0fffu + ((magnitude >> 13u) & 1u) - 0x38000000u) >> 13u);
  }
  let shift: u32 = 126u - (magnitude >> 23u);
  if (shift > 24u) { return sign; }
  let mantissa: u32 = (magnitude & 0x7fffffu) | 0x800000u;
  let half_way: u32 = 1u << (shift - 1u);
  let rest: u32 = mantissa & ((1u << shift) - 1u);
  let result: u32 = mantissa >> shift;
  return sign | select(result, result + 1u, rest > half_way || (rest == half_way && (result & 1u) != 0u));
}
fn tilewright_to_half_int(f: f32) -> i32 { return extractBits(i32(tilewright_to_half(f)), 0u, 16u); }
fn tilewright_from_half_int(h: i32) -> f32 { return tilewright_from_half(u32(h) & 0xffffu); }
fn tilewright_from_bfloat(h: u32) -> f32 { return bitcast<f32>(h << 16u); }
fn tilewright_to_bfloat(f: f32) -> u32 {
  let bits: u32 = bitcast<u32>(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return (bits >> 16u) | 0x40u; }
  return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}"""

_ROUND_HALF = "fn tilewright_round_half(f: f32) -> f32 {{ return {}; }}"
_ROUNDING = either(HALF, [_ROUND_HALF.format("f32(f16(f))")],
                   [_ROUND_HALF.format("tilewright_from_half(tilewright_to_half(f))")])  # fmt: skip
_SHUFFLES = either(
    SUBGROUPS,
    [
        f"fn tilewright_{name}_{kind}(x: {kind}, i: i32) -> {kind} {{ return {function}(x, u32(i)); }}"
        for name, function in (("shuffle", "subgroupShuffle"), ("shuffle_down", "subgroupShuffleDown"))
        for kind in dict.fromkeys(_SHUFFLED.values())
    ],
    [],
)

_DIVISIONS = [f"fn {name}(a: {kind}, b: {kind}) -> {kind} {{ return {result}; }}"
              for name, kind, result in _WORDS.divisions()]  # fmt: skip


_BUILTINS = "@builtin(workgroup_id) blockIdx: vec3<u32>, @builtin(local_invocation_id) threadIdx: vec3<u32>"
_OF_SUBGROUPS = "@builtin(subgroup_size) subgroupSize: u32, @builtin(subgroup_invocation_id) subgroupLane: u32"


def _head(launch: Launch, b: SourceBuilder) -> str:
    lines, fields, values = [], [], []
    for binding, param in enumerate(launch.kernel.params):
        if isinstance(param, Buffer):
            # `read` beside `read_write` would be refused where both are parts of one buffer, such as a model's arena
            declared = f"@group(0) @binding({binding}) var<storage, read_write> {b.name(param)}"
            if str(param.dtype) == "float16":
                lines += _half_array(declared, b.name(param), launch.kernel.attrs["written"][binding])
                continue
            kind = "atomic<u32>" if entry(param.dtype) in PACKED else WGSL.memory_type(param.dtype)
            lines.append(f"{declared}: {_array(param, kind)};")
        else:
            check_scalar("WGSL", param.name, param.dtype)
            fields.append(f"  {b.name(param)}: {WGSL.type_name(param.dtype)},")
            fields += [f"  {b.name(param)}_high: u32,"] if param.dtype.itemsize > 4 else []
            values.append(f"  let {b.name(param)} = {launch.kernel.name}_scalars.{b.name(param)};")
    if fields:
        scalars = f"{launch.kernel.name}_scalars"
        binding = sum(isinstance(p, Buffer) for p in launch.kernel.params)
        lines += [f"struct {scalars}_type {{", *fields, "}"]
        lines.append(f"@group(0) @binding({binding}) var<uniform> {scalars}: {scalars}_type;")
    lines.append(f"@compute @workgroup_size({', '.join(map(str, launch.block))})")
    plain = f"fn {launch.kernel.name}({_BUILTINS}) {{"
    uses = any(call.op == "has_subgroups" for call in collect([launch.kernel.body], Call))
    lines += (
        either(SUBGROUPS, [f"fn {launch.kernel.name}({_BUILTINS}, {_OF_SUBGROUPS}) {{"], [plain]) if uses else [plain]
    )
    return "\n".join([*lines, *values])


def _half_array(declared: str, name: str, written: bool) -> list[str]:
    """An array of float16 with the functions that load and store an element, in both forms."""
    load = f"fn tilewright_load_{name}(i: i32) -> f32 {{{{ return {{}}; }}}}"
    store = f"fn tilewright_store_{name}(i: i32, f: f32) {{{{ {{}} }}}}"
    word = f"atomicLoad(&{name}[i / 2])" if written else f"{name}[i / 2]"
    shift, bits = "u32(i & 1) * 16u", _WORDS.stores()["uint16"]
    parts = [line.format(name=name, index="i", value="tilewright_to_half(f)") for line in bits]
    return either(
        HALF,
        [f"{declared}: array<f16>;", load.format(f"f32({name}[i])"), *[store.format(f"{name}[i] = f16(f);")] * written],
        [f"{declared}: array<{'atomic<u32>' if written else 'u32'}>;",
         load.format(f"tilewright_from_half(extractBits({word}, {shift}, 16u))"),
         *[store.format(" ".join(parts))] * written],
    )  # fmt: skip


def _array(param: Buffer, kind: str) -> str:
    """The type of a buffer; with its size where that is known, which bounds are then checked by without a division."""
    size = param.constant_size() if param.dtype.itemsize == _WORD else None
    return f"array<{kind}, {size}>" if size else f"array<{kind}>"


_KEYWORDS = (
    "fn let var const loop switch if else for while return true false struct array vec3 i32 u32 f32 f16 bool main "
    "enable"
)
WEBGPU_SL = Language(
    dialect=WGSL,
    prelude="\n".join([_BASE, *_ROUNDING, *_SHUFFLES, *_DIVISIONS]),
    head=_head,
    native=NATIVE,
    reserved=(*_KEYWORDS.split(), "blockIdx", "threadIdx", "subgroupSize", "subgroupLane"),
    module_scope=True,
    reorders_sums=True,
    hoists=True,
)
