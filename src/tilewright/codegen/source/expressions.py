"""Text of expressions: one small function per node class, by the spellings of a `Dialect`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.dialect import entry
from tilewright.errors import InternalError, UnsupportedError
from tilewright.support.dtype import DType
from tilewright.tir import expr as e
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Call, Expr, StringImm
from tilewright.tir.op import never_nan


def flat_index(buffer: Any, indices: tuple[Expr, ...]) -> Expr:
    """The one index of a flat buffer."""
    if len(indices) != 1 or buffer.strides is not None:
        raise InternalError(
            f"buffer {buffer.name} reached code generation with {len(indices)} indices; flatten it first"
        )
    return indices[0]


def _int_imm(b: SourceBuilder, x: e.IntImm) -> str:
    return b.dialect.literal(x.dtype, x.value)


def _float_imm(b: SourceBuilder, x: e.FloatImm) -> str:
    return b.dialect.literal(x.dtype, x.value)


def _variable(b: SourceBuilder, x: e.Var) -> str:
    return b.name(x)


def _infix(symbol: str) -> Callable[[SourceBuilder, Any], str]:
    def emit(b: SourceBuilder, x: Any) -> str:
        return f"({b.value(x.a)} {symbol} {b.value(x.b)})"

    return emit


def _logical(symbol: str) -> Callable[[SourceBuilder, Any], str]:
    """ "and" and "or", which leave the second side out where the first decides, if the language is better off so."""
    return lambda b, x: _infix(symbol * 2 if b.dialect.short_circuits else symbol)(b, x)


def _wrapped(symbol: str) -> Callable[[SourceBuilder, Any], str]:
    """Sums, differences and products; those of 8 and 16 bits, which the language widens, are cut back."""

    def emit(b: SourceBuilder, x: Any) -> str:
        text = f"({b.value(x.a)} {symbol} {b.value(x.b)})"
        return _cut_back(b, x, text)

    return emit


def _cut_back(b: SourceBuilder, x: Expr, text: str) -> str:
    """The integer `text`, whose type the language may have widened, in that of `x`."""
    return b.dialect.converted(x.dtype, text) if x.dtype.is_int and x.dtype.bits < 32 else text


def _divided(symbol: str, floored: bool) -> Callable[[SourceBuilder, Any], str]:
    """Division: the language's own of floats and where the divisor is positive, else a function of the prelude.

    The language leaves division by 0 undefined, and that of the smallest number by -1; the loop IR does not.
    """
    name = f"{'floor' if floored else 'trunc'}{'div' if symbol == '/' else 'mod'}"

    def emit(b: SourceBuilder, x: Any) -> str:
        if x.dtype.is_float and symbol == "%":
            return f"{_function(b, 'fmod', x)}({b.value(x.a)}, {b.value(x.b)})"
        unsigned = x.dtype.code == "uint"
        if x.dtype.is_float or (b.positive(x.b) and (unsigned or not floored or b.nonnegative(x.a))):
            return f"({b.value(x.a)} {symbol} {b.value(x.b)})"
        kind = "trunc" + name[5:] if unsigned else name
        return f"tilewright_{kind}_{x.dtype}({b.value(x.a)}, {b.value(x.b)})"

    return emit


def _extreme(symbol: str) -> Callable[[SourceBuilder, Any], str]:
    """min and max by comparison, which yields the operand compared to where either is NaN; a NaN wins."""

    def emit(b: SourceBuilder, x: Any) -> str:
        one, other = atom(b, x.a), atom(b, x.b)
        condition = f"{one} {symbol} {other}"
        if x.dtype.lanes > 1 and b.dialect.vector_select:
            return _vector_select(b, x.dtype, f"({condition}) | ({one} != {one})", one, other)
        if x.dtype.is_float and not never_nan(x.a):
            if never_nan(x.b):
                one, other = other, one
                condition = f"{one} {symbol} {other}"
            else:
                condition = f"{condition} || {one} != {one}"
        return b.dialect.select.format(condition=condition, true=one, false=other)

    return emit


def atom(b: SourceBuilder, x: Expr) -> str:
    """The text of `x`, as a name or number, because it will be written twice."""
    text = b.value(x)
    simple = isinstance(x, e.IntImm | e.FloatImm) or text.replace("_", "").isalnum()
    return text if simple else b.keep(x, text)


def _not(b: SourceBuilder, x: e.Not) -> str:
    return f"(!{b.value(x.a)})"


def _cast(b: SourceBuilder, x: e.Cast) -> str:
    value, d = b.value(x.value), b.dialect
    if x.dtype.is_bool and not x.value.dtype.is_bool:
        return f"({value} != {d.literal(x.value.dtype, 0)})"
    function = d.conversions.get((str(x.value.dtype), str(x.dtype)))
    if function is not None:
        return f"{function}({value})"
    return d.converted(x.dtype, value)


def _vector_select(b: SourceBuilder, dtype: DType, condition: str, a: str, other: str) -> str:
    parts = {"type": b.dialect.type_name(dtype), "lanes": dtype.lanes}
    return b.dialect.vector_select.format(a=a, b=other, condition=condition, **parts)


def _select(b: SourceBuilder, x: e.Select) -> str:
    if x.dtype.lanes > 1 and b.dialect.vector_select:
        return _vector_select(b, x.dtype, b.value(x.condition), atom(b, x.true_value), atom(b, x.false_value))
    condition, true, false = b.value(x.condition), b.value(x.true_value), b.value(x.false_value)
    return b.dialect.select.format(condition=condition, true=true, false=false)


def _let(b: SourceBuilder, x: e.Let) -> str:
    value = b.value(x.value)
    d = b.dialect
    b.line(d.constant_line(d.type_name(x.var.dtype), b.name(x.var), value))
    return b.value(x.body)


def _load(b: SourceBuilder, x: e.BufferLoad) -> str:
    index = flat_index(x.buffer, x.indices)
    if isinstance(index, e.Ramp):
        if x.buffer in b.registers:
            return register_name(b, x.buffer, index)
        parts = {"name": b.name(x.buffer), "index": b.value(index.base), "space": b.dialect.spaces[x.buffer.scope]}
        return b.dialect.vector_load.format(lanes=x.dtype.lanes, **parts)
    if x.buffer.scope == "global" and entry(x.dtype) in b.dialect.loads:
        return b.dialect.loads[entry(x.dtype)].format(name=b.name(x.buffer), index=atom(b, index))
    return from_memory(b, x.dtype, f"{b.name(x.buffer)}[{b.value(index)}]")


def register_name(b: SourceBuilder, buffer: Buffer, index: e.Ramp) -> str:
    """The variable that holds a vector of an array in registers."""
    assert isinstance(index.base, e.IntImm)
    return b.registers[buffer][index.base.value]


def _broadcast(b: SourceBuilder, x: e.Broadcast) -> str:
    return b.dialect.broadcast.format(type=b.dialect.type_name(x.dtype), value=b.value(x.value))


def from_memory(b: SourceBuilder, dtype: Any, text: str) -> str:
    """A loaded value in its register type."""
    stored = dtype.is_bool and "bool" in b.dialect.memory_types
    return f"({text} != {b.dialect.literal(DType('int32'), 0)})" if stored else text


def to_memory(b: SourceBuilder, dtype: Any, text: str) -> str:
    """A value in the type it has in memory."""
    stored = dtype.is_bool and "bool" in b.dialect.memory_types
    return b.dialect.cast.format(type=b.dialect.memory_type(dtype), value=text) if stored else text


# ------------------------------------------------------------------------------------------------------------- calls
def _call(b: SourceBuilder, x: Call) -> str:
    if x.dtype.lanes > 1 and x.op in b.dialect.vector_functions:
        parts = [b.value(arg) for arg in x.args]
        text = b.dialect.vector_functions[x.op]
        return text.format(*parts, type=b.dialect.type_name(x.dtype), lanes=x.dtype.lanes)
    special = _CALLS.get(x.op)
    if special is not None:
        return special(b, x)
    if x.op in b.dialect.threads:
        return b.dialect.threads[x.op]
    arguments = ", ".join(b.value(a) for a in x.args)
    return f"{_function(b, x.op, x)}({arguments})"


def _function(b: SourceBuilder, op: str, x: Expr) -> str:
    dtype = x.args[0].dtype if isinstance(x, Call) and x.args else x.dtype
    found = b.dialect.functions.get((op, str(dtype.element)))
    if found is None:
        raise UnsupportedError(f"{b.dialect.name} code has no function for {op} of {dtype}")
    return found


def _if_then_else(b: SourceBuilder, x: Call) -> str:
    """Only the side taken is evaluated: a branch that sets a variable."""
    condition, true, false = x.args
    test = b.value(condition)
    result = b.fresh(x.dtype)
    with b.block(f"if ({test}) {{"):
        b.line(f"{result} = {b.value(true)};")
    with b.block("else {"):
        b.line(f"{result} = {b.value(false)};")
    b.know(x, result)
    return result


def _likely(b: SourceBuilder, x: Call) -> str:
    return b.value(x.args[0])


def _bits(symbol: str) -> Callable[[SourceBuilder, Call], str]:
    return lambda b, x: f"({b.value(x.args[0])} {symbol} {b.value(x.args[1])})"


def _shift(symbol: str) -> Callable[[SourceBuilder, Call], str]:
    def emit(b: SourceBuilder, x: Call) -> str:
        value, count = (b.value(arg) for arg in x.args)
        return _cut_back(b, x, b.dialect.shift.format(value=value, symbol=symbol, count=count))

    return emit


def _bitwise_not(b: SourceBuilder, x: Call) -> str:
    value = b.value(x.args[0])
    return f"(!{value})" if x.dtype.is_bool else _cut_back(b, x, f"(~{value})")


def _reinterpret(b: SourceBuilder, x: Call) -> str:
    found = b.dialect.functions.get((f"reinterpret_{x.dtype}", str(x.args[0].dtype)))
    if found is not None:
        return f"{found}({b.value(x.args[0])})"
    if b.dialect.type_name(x.dtype) == b.dialect.type_name(x.args[0].dtype):
        return b.value(x.args[0])
    if {x.dtype.code, x.args[0].dtype.code} <= {"int", "uint"}:
        return b.dialect.converted(x.dtype, b.value(x.args[0]))
    if not b.dialect.reinterpret:
        raise UnsupportedError(f"{b.dialect.name} code cannot reinterpret {x.args[0].dtype} as {x.dtype}")
    source, target = b.dialect.type_name(x.args[0].dtype), b.dialect.type_name(x.dtype)
    dtypes = {"source_dtype": x.args[0].dtype, "target_dtype": x.dtype}
    return b.dialect.reinterpret.format(source=source, target=target, value=b.value(x.args[0]), **dtypes)


def _extern(b: SourceBuilder, x: Call) -> str:
    name, *arguments = x.args
    if not isinstance(name, StringImm):
        raise InternalError(f"call_extern needs the function's name as its first argument: {x!r}")
    return f"{name.value}({', '.join(b.value(a) for a in arguments)})"


def _address_of(b: SourceBuilder, x: Call) -> str:
    target = x.args[0]
    if not isinstance(target, e.BufferLoad) or not b.dialect.pointers:
        raise UnsupportedError(f"{b.dialect.name} code cannot take the address in {x!r}")
    return f"(&{b.name(target.buffer)}[{b.value(flat_index(target.buffer, target.indices))}])"


def _pointer_add(b: SourceBuilder, x: Call) -> str:
    if not b.dialect.pointers:
        raise UnsupportedError(f"{b.dialect.name} code has no pointers: {x!r}")
    return f"(void*)((char*){b.value(x.args[0])} + {b.value(x.args[1])})"


def _classify(text: str) -> Callable[[SourceBuilder, Call], str]:
    """isnan and its like by comparison, which every language has."""

    def emit(b: SourceBuilder, x: Call) -> str:
        return text.format(atom(b, x.args[0]), b.dialect.literal(x.args[0].dtype, math.inf))

    return emit


_CALLS: dict[str, Callable[[SourceBuilder, Call], str]] = {
    "if_then_else": _if_then_else,
    "likely": _likely,
    "bitwise_and": _bits("&"),
    "bitwise_or": _bits("|"),
    "bitwise_xor": _bits("^"),
    "shift_left": _shift("<<"),
    "shift_right": _shift(">>"),
    "bitwise_not": _bitwise_not,
    "reinterpret": _reinterpret,
    "call_extern": _extern,
    "address_of": _address_of,
    "pointer_add": _pointer_add,
    "isnan": _classify("({0} != {0})"),
    "isinf": _classify("({0} == {1} || {0} == -{1})"),
    "isfinite": _classify("({0} < {1} && {0} > -{1})"),
}

EXPRESSIONS: dict[type, Callable[[SourceBuilder, Any], str]] = {
    e.IntImm: _int_imm,
    e.FloatImm: _float_imm,
    e.Var: _variable,
    e.SizeVar: _variable,
    e.Add: _wrapped("+"),
    e.Sub: _wrapped("-"),
    e.Mul: _wrapped("*"),
    e.Div: _divided("/", floored=False),
    e.Mod: _divided("%", floored=False),
    e.FloorDiv: _divided("/", floored=True),
    e.FloorMod: _divided("%", floored=True),
    e.Min: _extreme("<"),
    e.Max: _extreme(">"),
    e.EQ: _infix("=="),
    e.NE: _infix("!="),
    e.LT: _infix("<"),
    e.LE: _infix("<="),
    e.GT: _infix(">"),
    e.GE: _infix(">="),
    e.And: _logical("&"),
    e.Or: _logical("|"),
    e.Not: _not,
    e.Cast: _cast,
    e.Select: _select,
    e.Let: _let,
    e.Broadcast: _broadcast,
    e.BufferLoad: _load,
    e.Call: _call,
}
