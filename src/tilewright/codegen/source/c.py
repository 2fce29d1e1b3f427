"""C99: a header's worth of prelude, then one function per kernel and its packed entry.

    int32_t k(float* restrict a, …, const tilewright_context* ctx)      0, or the number of the assertion that failed
    int32_t k__entry(void** slots, const tilewright_context* ctx)       slots: 8 bytes a parameter, by address or value

The text needs no library but <math.h>, and that only for float64; signed integers must wrap (`-fwrapv`). Alone on a
bare machine, call a kernel with `tilewright_alone` as its context.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.dialect import Dialect, float_names
from tilewright.codegen.source.expressions import EXPRESSIONS
from tilewright.codegen.source.half import CONVERSIONS, half_functions
from tilewright.codegen.source.literals import c_literal, division_functions
from tilewright.codegen.source.statements import statement
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import SizeVar, Var
from tilewright.tir.float_vectors import LANES
from tilewright.tir.stmt import PrimFunc

_INTEGERS = {f"{u}int{bits}": f"{u}int{bits}_t" for bits in (8, 16, 32, 64) for u in ("", "u")}
_LIBRARY = (
    "exp exp2 expm1 log log2 log10 log1p sqrt cbrt tanh erf erfc lgamma tgamma sin cos tan asin acos atan sinh "
    "cosh asinh acosh atanh floor ceil trunc round=rint fabs abs=fabs pow fmod atan2 hypot copysign fma=tilewright_fma"
)
C99 = Dialect(
    name="C",
    types={"bool": "bool", **_INTEGERS, "float32": "float", "float64": "double", "float16": "uint16_t",
           "bfloat16": "uint16_t", "handle": "void*"},
    functions={**float_names(_LIBRARY, {"float32": "f", "float64": ""}),
               **{("popcount", dtype): "tilewright_popcount" for dtype in ("uint8", "uint32")}},
    conversions=CONVERSIONS,
    literal=c_literal,
    threads={"worker_id": "ctx->worker", "num_workers": "ctx->workers"},
    barriers={"workers": "tilewright_barrier(ctx);"},
    scopes={"local": "", "global": ""},
    array="{scope}{type} {name}[{size}] TILEWRIGHT_ALIGNED;",
    reinterpret="tilewright_bits_{source_dtype}_{target_dtype}({value})",
    fail="if (!({condition})) return {code};",
    vector_type="tilewright_{type}x{lanes}",
    broadcast="({value} - ({type}){{0}})",  # of any number itself; a cast is none of vectors
    vector_select="(({type})((tilewright_boolx{lanes}){b} ^ "
    "(((tilewright_boolx{lanes}){a} ^ (tilewright_boolx{lanes}){b}) & ({condition}))))",
    vector_functions={"fma": "({0} * {1} + {2})", "reinterpret": "(({type}){0})",
                      "fabs": "(({type})((tilewright_int32_tx{lanes}){0} & 0x7fffffff))"},
    vector_load="(*(const tilewright_floatsx{lanes}*)({name} + {index}))",
    vector_store="*(tilewright_floatsx{lanes}*)({name} + {index}) = {value};",
    joined_stores="TILEWRIGHT_BY_TWO",
    spaces={"global": "", "local": ""},
    call_function="{{ int32_t code = {name}({arguments}ctx); if (code != 0) return code; }}",
)  # fmt: skip

_HEAD = """\
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct { int32_t worker, workers; void* barrier; } tilewright_context;
static const tilewright_context tilewright_alone = { 0, 1, 0 };
extern void tilewright_barrier(const tilewright_context* ctx);

#if defined(__GNUC__)
#if UINTPTR_MAX > 0xffffffffu
#define TILEWRIGHT_ALIGNED __attribute__((aligned(64)))
#else
#define TILEWRIGHT_ALIGNED __attribute__((aligned(8)))
#endif
#define TILEWRIGHT_KERNEL __attribute__((unused, noinline)) static
#define TILEWRIGHT_MAYBE __attribute__((unused)) static inline
#else
#define TILEWRIGHT_ALIGNED
#define TILEWRIGHT_KERNEL static
#define TILEWRIGHT_MAYBE static inline
#endif
#if defined(__POPCNT__) || (defined(__GNUC__) && defined(__aarch64__))
#define tilewright_popcount(x) ((uint32_t)__builtin_popcount(x))
#else
TILEWRIGHT_MAYBE uint32_t tilewright_popcount(uint32_t x) {
  x -= (x >> 1) & 0x55555555u;
  x = (x & 0x33333333u) + ((x >> 2) & 0x33333333u);
  return ((x + (x >> 4)) & 0x0F0F0F0Fu) * 0x01010101u >> 24;
}
#endif
#ifdef __FP_FAST_FMAF
#define tilewright_fmaf(a, b, c) __builtin_fmaf(a, b, c)
#else
#define tilewright_fmaf(a, b, c) ((a) * (b) + (c))
#endif
#define tilewright_fma(a, b, c) fma(a, b, c)"""
#: Vectors of GCC and Clang: in registers, in memory at the alignment of their elements, and results of comparisons.
_VECTOR_TYPES = "\n".join(
    f"typedef float tilewright_floatx{lanes} __attribute__((vector_size({4 * lanes})));\n"
    f"typedef float tilewright_floatsx{lanes} __attribute__((vector_size({4 * lanes}), aligned(4), may_alias));\n"
    f"typedef int32_t tilewright_int32_tx{lanes} __attribute__((vector_size({4 * lanes})));\n"
    f"typedef int32_t tilewright_boolx{lanes} __attribute__((vector_size({4 * lanes})));"
    for lanes in LANES
)
#: While one iteration waits for its exponential, another goes on.
_BY_TWO = """
#if !defined(__clang__) && __GNUC__ >= 8
#define TILEWRIGHT_BY_TWO _Pragma("GCC unroll 2")
#else
#define TILEWRIGHT_BY_TWO
#endif"""
_VECTORS = _VECTOR_TYPES + _BY_TWO
_BARRIER = "extern void tilewright_barrier(const tilewright_context* ctx);"
_NO_BARRIER = "#define tilewright_barrier(ctx) ((void)(ctx))"
_BITS = [("float32", "float", "int32", "int32_t"), ("float32", "float", "uint32", "uint32_t"),
         ("float64", "double", "int64", "int64_t"), ("float64", "double", "uint64", "uint64_t")]  # fmt: skip


@dataclass(frozen=True)
class EmittedSource:
    """Source text, and the messages that the functions' non-zero return codes (1-based) stand for."""

    text: str
    messages: tuple[str, ...]


def emit_c(funcs: Sequence[PrimFunc], scopes: Mapping[str, str] | None = None) -> EmittedSource:
    """The C99 text of one translation unit that holds `funcs` and their packed entries.

    `scopes` spells how arrays in further storage scopes are declared.
    """
    messages: list[str] = []
    dialect = replace(C99, scopes={**C99.scopes, **(scopes or {})})
    declared = [f"int32_t {f.name}({_parameters(f, _builder(f, dialect))});" for f in funcs]
    parts = [c_prelude(), "\n".join(declared)]
    for func in funcs:
        parts += [_function(func, messages, dialect), _entry(func)]
    return EmittedSource("\n\n".join(parts) + "\n", tuple(messages))


def emit_static_c(funcs: Sequence[PrimFunc]) -> EmittedSource:
    """`funcs` and their packed entries as functions that only their own file sees; behind the text of `c_prelude`."""
    messages: list[str] = []
    parts = []
    for func in funcs:
        parts += [f"TILEWRIGHT_KERNEL {_function(func, messages, C99)}", f"TILEWRIGHT_MAYBE {_entry(func)}"]
    return EmittedSource("\n\n".join(parts) + "\n", tuple(messages))


def c_prelude() -> str:
    """The text before functions."""
    return "\n".join([_HEAD, _VECTORS, *prelude_functions()])


def prelude_head() -> str:
    """The start of the text before functions of one thread, for whom the barrier waits for nobody; no <math.h>."""
    return _HEAD.replace(_BARRIER, _NO_BARRIER).removeprefix("#include <math.h>\n")


def vector_types(text: str) -> list[str]:
    """The declarations of vectors, where a text has some."""
    return [_VECTORS] if "tilewright_float" in text and re.search(r"\btilewright_floats?x\d", text) else []


def prelude_functions() -> list[str]:
    """The functions that expressions call, those that others call first."""
    q = "TILEWRIGHT_MAYBE "
    bits = []
    for dtype, spelled, other_dtype, other in _BITS:
        for a, a_type, b, b_type in ((dtype, spelled, other_dtype, other), (other_dtype, other, dtype, spelled)):
            union = f"union {{ {a_type} from; {b_type} to; }} u; u.from = x; return u.to;"
            bits.append(f"{q}{b_type} tilewright_bits_{a}_{b}({a_type} x) {{ {union} }}")
    half = half_functions(q, "uint16_t", "uint32_t", "tilewright_bits_uint32_float32", "tilewright_bits_float32_uint32")
    texts = "\n".join([half, division_functions(q, _INTEGERS)])
    return [*bits, *(f"{q}{text.rstrip()}" for text in texts.split(q) if text)]


def _parameters(func: PrimFunc, b: SourceBuilder) -> str:
    noalias, overlapping = func.attrs.get("noalias", True), func.attrs.get("overlapping", ())
    names = []
    for number, param in enumerate(func.params):
        exclusive = "restrict " if noalias and number not in overlapping else ""
        if isinstance(param, Buffer):
            names.append(f"{C99.memory_type(param.dtype)}* {exclusive}{b.name(param)}")
        else:
            names.append(f"{C99.type_name(param.dtype)} {b.name(param)}")
    return ", ".join([*names, "const tilewright_context* ctx"])


def _builder(func: PrimFunc, dialect: Dialect) -> SourceBuilder:
    b = SourceBuilder(dialect, EXPRESSIONS)
    b.reserve("ctx", func.name, *C_KEYWORDS)
    return b


def _function(func: PrimFunc, messages: list[str], dialect: Dialect) -> str:
    b = _builder(func, dialect)
    b.messages = messages
    for param in func.params:
        if isinstance(param, Var) and isinstance(param, SizeVar):
            b.analyzer.bind(param, (0, 2**31 - 2))
    head = f"int32_t {func.name}({_parameters(func, b)}) {{"
    statement(b, func.body)
    end = [C99.position.format(file="generated", line=1)] if b.shows_positions else []
    lines = [*b.top_lines, *b.lines]
    used = set(re.findall(r"\w+", "\n".join(lines)))
    names = [b.name(param) for param in func.params]
    unused = [f"  (void){name};" for name in (*names, "ctx") if name not in used]
    return "\n".join([head, *unused, *lines, "  return 0;", "}", *end])


def _entry(func: PrimFunc) -> str:
    first = func.attrs.get("slots")
    arguments = [] if first is None else ["slots"]
    for i, param in enumerate(func.params[len(arguments) :], first or 0):
        if isinstance(param, Buffer):
            arguments.append(f"({C99.memory_type(param.dtype)}*)slots[{i}]")
        else:
            arguments.append(f"*({C99.type_name(param.dtype)}*)&slots[{i}]")
    call = ", ".join([*arguments, "ctx"])
    return (
        f"int32_t {func.name}__entry(void** slots, const tilewright_context* ctx) {{\n  return {func.name}({call});\n}}"
    )


_WORDS = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true "
    "false main asm y0 y1 j0 j1"
)
C_KEYWORDS = tuple(_WORDS.split())
