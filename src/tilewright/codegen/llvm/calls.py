"""LLVM code for calls: intrinsics by table, functions of the C library, other kernels, the worker's context."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.codegen.llvm.arithmetic import FLOAT32, convert, gather_lanes
from tilewright.codegen.llvm.builder import LIBM, Block, FunctionBuilder, Value, symbol_of
from tilewright.codegen.llvm.dot_product import bfloat16_pair, dot2, dot4
from tilewright.codegen.llvm.look_up import look_up
from tilewright.codegen.llvm.matrix_tiles import tile_load, tile_product, tile_store, tile_zero
from tilewright.codegen.llvm.memory import address, flat_index, wide
from tilewright.codegen.llvm.table_lookup import lookup, mask_bits
from tilewright.codegen.llvm.types import is_small_float, memory_type, register_type, splat
from tilewright.errors import InternalError, UnsupportedError
from tilewright.support.dtype import DType
from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir.expr import Call, Expr, StringImm

BARRIER = "tilewright_barrier"


def call(b: FunctionBuilder, expr: Call) -> Value:
    """The value of a call, by the table of known names."""
    emit = _CALLS.get(expr.op)
    if emit is None:
        raise UnsupportedError(f"the LLVM code generator has no code for the call {expr.op!r} in {expr!r}")
    return emit(b, expr)


def effect(b: FunctionBuilder, expr: Expr) -> None:
    """A call made for its effect; any other expression has none and is left out."""
    if isinstance(expr, Call) and expr.op in _EFFECTS:
        _EFFECTS[expr.op](b, expr)


# --------------------------------------------------------------------------------------------- math intrinsics
def overload(dtype: DType) -> str:
    """The type suffix of an overloaded LLVM intrinsic, such as ``v16f32``."""
    element = f"{'f' if dtype.is_float else 'i'}{dtype.bits}"
    return element if dtype.lanes == 1 else f"v{dtype.lanes}{element}"


def intrinsic(b: FunctionBuilder, name: str, dtype: DType, operands: list[Value], suffix: str = "") -> Value:
    """A call of ``llvm.<name>.<type>`` whose operands and result are of `dtype`; `suffix` holds immediate arguments."""
    kind = register_type(dtype)
    immediates = ", " + suffix if suffix else ""
    types = ", ".join([kind] * len(operands)) + (", " + suffix.split()[0] if suffix else "")
    callee = b.module.declare(f"llvm.{name}.{overload(dtype)}", kind, types)
    arguments = ", ".join(f"{kind} {x.text}" for x in operands)
    return b.define(f"call {kind} {callee}({arguments}{immediates})", *operands)


def _math(name: str, suffix: str = "") -> Callable[[FunctionBuilder, Call], Value]:
    def emit(b: FunctionBuilder, expr: Call) -> Value:
        dtype = expr.dtype
        if is_small_float(dtype):
            return through_float32(b, expr)
        return intrinsic(b, name, dtype, [b.value(x) for x in expr.args], suffix)

    return emit


def through_float32(b: FunctionBuilder, expr: Call) -> Value:
    """A call on 16-bit floats, computed as float32 and rounded."""
    dtype = FLOAT32.with_lanes(expr.dtype.lanes)
    result = b.value(Call(dtype, expr.op, tuple(e.Cast(dtype, x) for x in expr.args)))
    return convert(b, result, dtype, expr.dtype)


def _fma(b: FunctionBuilder, expr: Call) -> Value:
    """Fused where the target can; elsewhere a product and a sum, since a library call per lane would cost far more."""
    name = "fma" if b.target.has_fma else "fmuladd"
    return _math(name)(b, expr)


def _half_fma(b: FunctionBuilder, expr: Call) -> Value:
    """In float16 where there are such instructions, with whose feature the function is compiled then."""
    if not b.target.half_feature_string:
        return through_float32(b, Call(expr.dtype, "fma", expr.args))
    lanes, patterns = expr.dtype.lanes, register_type(expr.dtype)
    halves = "half" if lanes == 1 else f"<{lanes} x half>"
    operands = []
    for value in map(b.value, expr.args):
        operands.append(b.defined_once(f"bitcast {patterns} {value.text} to {halves}", value))
    callee = b.module.declare(f"llvm.fma.{overload(expr.dtype)}", halves, ", ".join([halves] * len(operands)))
    result = b.define(f"call {halves} {callee}({', '.join(f'{halves} {x.text}' for x in operands)})", *operands)
    b.computes_half = True
    return b.define(f"bitcast {halves} {result.text} to {patterns}", result)


def _rsqrt(b: FunctionBuilder, expr: Call) -> Value:
    if is_small_float(expr.dtype):
        return through_float32(b, expr)
    kind = register_type(expr.dtype)
    root = intrinsic(b, "sqrt", expr.dtype, [b.value(expr.args[0])])
    return b.define(f"fdiv {kind} {splat(expr.dtype, '1.0')}, {root.text}", root)


def _libm(name: str) -> Callable[[FunctionBuilder, Call], Value]:
    """A function of the C math library, called lane by lane."""

    def emit(b: FunctionBuilder, expr: Call) -> Value:
        if is_small_float(expr.dtype):
            return through_float32(b, expr)
        symbol = name if expr.dtype.bits == 64 else name + "f"
        return per_lane(b, symbol, expr.dtype, expr.args)

    return emit


def per_lane(b: FunctionBuilder, symbol: str, dtype: DType, arguments: tuple[Expr, ...]) -> Value:
    """The C function `symbol` on scalars, or on each lane of vectors. Taken as pure: no effect, same result."""
    values = [b.value(x) for x in arguments]
    element = register_type(dtype.element)
    types = [register_type(x.dtype.element) for x in arguments]
    callee = b.module.declare(symbol, element, ", ".join(types), " nounwind willreturn memory(none)")

    def one(operands: list[Value]) -> Value:
        listed = ", ".join(f"{kind} {x.text}" for kind, x in zip(types, operands, strict=True))
        return b.define(f"call {element} {callee}({listed})", *operands)

    if dtype.lanes == 1:
        return one(values)
    results = []
    for lane in range(dtype.lanes):
        parts = []
        for argument, value in zip(arguments, values, strict=True):
            kind = register_type(argument.dtype)
            many = argument.dtype.lanes > 1
            parts.append(b.defined_once(f"extractelement {kind} {value.text}, i64 {lane}", value) if many else value)
        results.append(one(parts))
    return gather_lanes(b, results, register_type(dtype), element)


def _extern(b: FunctionBuilder, expr: Call) -> Value:
    name, *arguments = expr.args
    if not isinstance(name, StringImm):
        raise InternalError(f"call_extern needs the function's name as its first argument: {expr!r}")
    return per_lane(b, name.value, expr.dtype, tuple(arguments))


def _test(text: str) -> Callable[[FunctionBuilder, Call], Value]:
    """A classification of floats: "nan", "inf" or "finite"."""

    def emit(b: FunctionBuilder, expr: Call) -> Value:
        dtype = expr.args[0].dtype
        x = b.value(expr.args[0])
        if is_small_float(dtype):
            wide_type = FLOAT32.with_lanes(dtype.lanes)
            x, dtype = convert(b, x, dtype, wide_type), wide_type
        kind = register_type(dtype)
        if text == "nan":
            return b.define(f"fcmp uno {kind} {x.text}, {x.text}", x)
        infinite = splat(dtype, "0x7FF0000000000000")
        magnitude = intrinsic(b, "fabs", dtype, [x])
        return b.define(f"fcmp {'oeq' if text == 'inf' else 'olt'} {kind} {magnitude.text}, {infinite}", magnitude)

    return emit


# --------------------------------------------------------------------------------------------- bits and vectors
def _bits(op: str, unsigned_op: str | None = None) -> Callable[[FunctionBuilder, Call], Value]:
    def emit(b: FunctionBuilder, expr: Call) -> Value:
        x, y = (b.value(a) for a in expr.args)
        chosen = unsigned_op if unsigned_op and expr.dtype.code != "int" else op
        return b.define(f"{chosen} {register_type(expr.dtype)} {x.text}, {y.text}", x, y)

    return emit


def _bitwise_not(b: FunctionBuilder, expr: Call) -> Value:
    x = b.value(expr.args[0])
    ones = splat(expr.dtype, "true" if expr.dtype.is_bool else "-1")
    return b.define(f"xor {register_type(expr.dtype)} {x.text}, {ones}", x)


def _reinterpret(b: FunctionBuilder, expr: Call) -> Value:
    source, target = register_type(expr.args[0].dtype), register_type(expr.dtype)
    if expr.args[0].dtype.bits * expr.args[0].dtype.lanes != expr.dtype.bits * expr.dtype.lanes:
        raise InternalError(f"reinterpret between types of different size: {expr!r}")
    x = b.value(expr.args[0])
    return x if source == target else b.define(f"bitcast {source} {x.text} to {target}", x)


def _likely(b: FunctionBuilder, expr: Call) -> Value:
    return b.value(expr.args[0])


_COMBINE: dict[str, Callable[[Expr, Expr], Expr]] = {
    "vector_reduce_add": e.Add,
    "vector_reduce_mul": e.Mul,
    "vector_reduce_max": e.Max,
    "vector_reduce_min": e.Min,
}


def _vector_reduce(b: FunctionBuilder, expr: Call) -> Value:
    """Halves combined until one lane is left: the same order on every target."""
    combine, x = _COMBINE[expr.op], expr.args[0]
    while x.dtype.lanes > 1:
        lanes = x.dtype.lanes
        half = lanes // 2
        low, high = e.Shuffle((x,), tuple(range(half))), e.Shuffle((x,), tuple(range(half, 2 * half)))
        folded = combine(low, high)
        x = folded if lanes % 2 == 0 else e.Shuffle((folded, e.Shuffle((x,), (lanes - 1,))), tuple(range(half + 1)))
    return b.value(x)


def _any_lane(b: FunctionBuilder, expr: Call) -> Value:
    (condition,) = expr.args
    kind = register_type(condition.dtype)
    callee = b.module.declare(f"llvm.vector.reduce.or.v{condition.dtype.lanes}i1", "i1", kind)
    value = b.value(condition)
    return b.define(f"call i1 {callee}({kind} {value.text})", value)


# -------------------------------------------------------------------------------------------------- conditionals
def _if_then_else(b: FunctionBuilder, expr: Call) -> Value:
    """Only the side taken is evaluated: two blocks joined by a phi."""
    condition, x, y = expr.args
    test = b.value(condition)
    if is_cheap(b, x) and is_cheap(b, y):
        return b.value(e.Select(condition, x, y))
    before = b.block
    then_block, then_value, then_end = _side(b, "then", x)
    else_block, else_value, else_end = _side(b, "else", y)
    before.terminator = f"br i1 {test.text}, label %{then_block.label}, label %{else_block.label}"
    join = b.new_block("join")
    then_end.terminator = else_end.terminator = f"br label %{join.label}"
    b.scopes[-1].block = join
    name = f"%v{b.count}"
    b.count += 1
    kind = register_type(expr.dtype)
    join.phis.append(
        f"  {name} = phi {kind} [ {then_value.text}, %{then_end.label} ], [ {else_value.text}, %{else_end.label} ]"
    )
    return Value(name, b.depth, test.reads | then_value.reads | else_value.reads)


def _side(b: FunctionBuilder, hint: str, expr: Expr) -> tuple[Block, Value, Block]:
    first = b.new_block(hint)
    b.open("branch", first)
    value = b.value(expr)
    return first, value, b.close()


_CHEAP = frozenset((e.Add, e.Sub, e.Mul, e.Min, e.Max, e.Cast, e.Broadcast, e.Ramp, e.LT, e.LE, e.GT, e.GE, e.EQ, e.NE))


@nested
def is_cheap(b: FunctionBuilder, expr: Expr, depth: int = 2) -> bool:
    """True if `expr` may as well be evaluated where its guard is false: a few operations, no load, no call."""
    if isinstance(expr, (e.IntImm, e.FloatImm, e.Var)) or expr in b.memo:
        return True
    if depth == 0 or type(expr) not in _CHEAP:
        return False
    return all(is_cheap(b, x, depth - 1) for x in expr.fields() if isinstance(x, Expr))


# ---------------------------------------------------------------------------------- context, pointers, functions
def _context(offset: int) -> Callable[[FunctionBuilder, Call], Value]:
    def emit(b: FunctionBuilder, _: Call) -> Value:
        pointer = b.defined_once(f"getelementptr i8, ptr %ctx, i64 {offset}")
        return b.defined_once(f"load i32, ptr {pointer.text}, align 4, !invariant.load !0", pointer)

    return emit


def _barrier(b: FunctionBuilder, _: Call) -> None:
    callee = b.module.declare(BARRIER, "void", "ptr", " nounwind")
    b.line(f"call void {callee}(ptr %ctx)")
    b.forget_all_reads()


def _pointer_add(b: FunctionBuilder, expr: Call) -> Value:
    base, offset = b.value(expr.args[0]), wide(b, expr.args[1])
    return b.define(f"getelementptr i8, ptr {base.text}, {b.index} {offset.text}", base, offset)


def _address_of(b: FunctionBuilder, expr: Call) -> Value:
    target = expr.args[0]
    if not isinstance(target, e.BufferLoad):
        raise InternalError(f"address_of takes a buffer element: {expr!r}")
    index = flat_index(target.buffer, target.indices)
    return address(b, target.buffer, index.base if isinstance(index, e.Ramp) else index)


def _call_function(b: FunctionBuilder, expr: Call) -> None:
    """Calls another kernel; its non-zero return code is returned at once."""
    name, *arguments = expr.args
    if not isinstance(name, StringImm):
        raise InternalError(f"call_function needs the kernel's name as its first argument: {expr!r}")
    values = [b.value(x) for x in arguments]
    types = [memory_type(x.dtype) for x in arguments]
    callee = b.module.declare(symbol_of(name.value), "i32", ", ".join([*types, "ptr"]))
    listed = "".join(f"{kind} {x.text}, " for kind, x in zip(types, values, strict=True))
    code = f"%c{b.count}"
    b.count += 1
    b.line(f"{code} = call i32 {callee}({listed}ptr %ctx)")
    b.line(f"{code}.bad = icmp ne i32 {code}, 0")
    bad, good = b.new_block("bad"), b.new_block("good")
    b.block.terminator = f"br i1 {code}.bad, label %{bad.label}, label %{good.label}"
    bad.terminator = f"ret i32 {code}"
    b.scopes[-1].block = good
    b.forget_all_reads()


def _prefetch(b: FunctionBuilder, expr: Call) -> None:
    """prefetch(address[, write, locality]): a hint that memory will be used soon; nothing where there is none."""
    if b.target.architecture == "wasm32":
        return
    target, *hints = expr.args
    if isinstance(target, e.BufferLoad):
        target = Call(DType("handle"), "address_of", (target,))
    pointer = b.value(target)
    write, locality = ([x.value for x in hints if isinstance(x, e.IntImm)] + [0, 3])[:2] if len(hints) == 2 else (0, 3)
    callee = b.module.declare("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
    b.line(f"call void {callee}(ptr {pointer.text}, i32 {write}, i32 {locality}, i32 1)")


def _extern_effect(b: FunctionBuilder, expr: Call) -> None:
    name, *arguments = expr.args
    if not isinstance(name, StringImm):
        raise InternalError(f"call_extern needs the function's name as its first argument: {expr!r}")
    values = [b.value(x) for x in arguments]
    types = [register_type(x.dtype) for x in arguments]
    callee = b.module.declare(name.value, register_type(expr.dtype), ", ".join(types))
    listed = ", ".join(f"{kind} {x.text}" for kind, x in zip(types, values, strict=True))
    b.line(f"call {register_type(expr.dtype)} {callee}({listed})")
    b.forget_all_reads()


_CALLS: dict[str, Callable[[FunctionBuilder, Call], Value]] = {
    "sqrt": _math("sqrt"),
    "floor": _math("floor"),
    "ceil": _math("ceil"),
    "trunc": _math("trunc"),
    "round": _math("roundeven"),
    "fabs": _math("fabs"),
    "abs": _math("fabs"),
    "copysign": _math("copysign"),
    "fma": _fma,
    "half_fma": _half_fma,
    "rsqrt": _rsqrt,
    **{name: _libm(name) for name in sorted(LIBM)},
    "isnan": _test("nan"),
    "isinf": _test("inf"),
    "isfinite": _test("finite"),
    "shift_left": _bits("shl"),
    "shift_right": _bits("ashr", "lshr"),
    "bitwise_and": _bits("and"),
    "bitwise_or": _bits("or"),
    "bitwise_xor": _bits("xor"),
    "bitwise_not": _bitwise_not,
    "popcount": _math("ctpop"),
    "clz": _math("ctlz", "i1 false"),
    "reinterpret": _reinterpret,
    "likely": _likely,
    "if_then_else": _if_then_else,
    **dict.fromkeys(_COMBINE, _vector_reduce),
    "any_lane": _any_lane,
    "bfloat16_pair": bfloat16_pair,
    "dot2": dot2,
    "dot4": dot4,
    "dot4_in_pairs": dot4,
    "look_up": look_up,
    "table_lookup": lookup,
    "mask_bits": mask_bits,
    "worker_id": _context(0),
    "num_workers": _context(4),
    "region_id": _context(16),
    "pointer_add": _pointer_add,
    "address_of": _address_of,
    "call_extern": _extern,
}

_EFFECTS: dict[str, Callable[[FunctionBuilder, Call], None]] = {
    "barrier": _barrier,
    "call_function": _call_function,
    "prefetch": _prefetch,
    "call_extern": _extern_effect,
    "tile_zero": tile_zero,
    "tile_load": tile_load,
    "tile_product": tile_product,
    "tile_store": tile_store,
}
