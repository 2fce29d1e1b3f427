"""LLVM code for addresses, loads and stores.

An index is taken apart into 64-bit terms, which are added to the base address from the outermost loop inwards, the
constant last. So ``x[i*n + k + 3]`` inside loop k costs one load with a displacement: the address of row i was computed
outside. Index arithmetic never overflows (docs/ir.md), so widening each part is exact.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright.codegen.llvm.arithmetic import broadcast_value, gather_lanes, permute
from tilewright.codegen.llvm.builder import FunctionBuilder, Value
from tilewright.codegen.llvm.byte_lookup import ENTRIES, byte_index, lookup, lookup_lanes
from tilewright.codegen.llvm.facts import constant_lane, nonnegative
from tilewright.codegen.llvm.types import check_lanes, element_type, memory_type, register_type
from tilewright.errors import InternalError
from tilewright.support.dtype import DType
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, IntImm

#: Bytes of the memory of WebAssembly below all buffers, those of the stack: so few do not wrap.
_LOWEST = 1 << 20


# ---------------------------------------------------------------------------------------------------- addresses
def split_index(index: Expr) -> tuple[list[tuple[Expr, int]], int]:
    """`index` as terms (expression, coefficient) and a constant."""
    terms: list[tuple[Expr, int]] = []
    constant = 0
    if index.dtype.code != "int":
        return [(index, 1)], 0
    stack = [(index, 1)]
    while stack:
        expr, factor = stack.pop()
        kind = type(expr)
        if kind is IntImm:
            constant += factor * expr.value  # type: ignore[attr-defined]
        elif kind is e.Add:
            stack += ((expr.b, factor), (expr.a, factor))  # type: ignore[attr-defined]
        elif kind is e.Sub:
            stack += ((expr.b, -factor), (expr.a, factor))  # type: ignore[attr-defined]
        elif kind is e.Mul and type(expr.b) is IntImm:  # type: ignore[attr-defined]
            stack.append((expr.a, factor * expr.b.value))  # type: ignore[attr-defined]
        elif kind is e.Mul and type(expr.a) is IntImm:  # type: ignore[attr-defined]
            stack.append((expr.b, factor * expr.a.value))  # type: ignore[attr-defined]
        else:
            terms.append((expr, factor))
    return terms, constant


def wide(b: FunctionBuilder, expr: Expr) -> Value:
    """The integer `expr`, used as an index or bound, in the type of indices."""
    if isinstance(expr, IntImm):
        return _constant(b, expr.value)
    key = ("wide", expr)
    found = b.memo.get(key)
    if found is None:
        found = _WIDEN.get(type(expr), _wide_leaf)(b, expr)
        b.remember(key, found)
    return found


def _wide_leaf(b: FunctionBuilder, expr: Expr) -> Value:
    if not expr.dtype.is_int or expr.dtype.lanes != 1:
        raise InternalError(f"an index of type {expr.dtype}: {expr!r}")
    value, width = b.value(expr), int(b.index[1:])
    if isinstance(expr, IntImm):
        return _constant(b, expr.value)
    if expr.dtype.bits > width:
        return b.define(f"trunc i64 {value.text} to {b.index}", value)
    if expr.dtype.bits == width:
        return value
    extend = "zext" if expr.dtype.code != "int" else "zext nneg" if nonnegative(b, expr) else "sext"
    return b.define(f"{extend} {register_type(expr.dtype)} {value.text} to {b.index}", value)


def _constant(b: FunctionBuilder, value: int) -> Value:
    """A constant index; addresses of 32 bits count up to four billions, and LLVM's numbers of them to two."""
    return Value(str((value + (1 << 31)) % (1 << 32) - (1 << 31) if b.index == "i32" else value))


def _wide_variable(b: FunctionBuilder, expr: e.Var) -> Value:
    return b.wide_variables.get(expr) or _wide_leaf(b, expr)


def _wide_sum(b: FunctionBuilder, expr: Expr) -> Value:
    if expr.dtype.code != "int":
        return _wide_leaf(b, expr)
    terms, constant = split_index(expr)
    total = _constant(b, constant)
    for _, group in _by_depth(b, terms):
        for text, factor, value in group:
            total = _accumulate(b, total, text, factor, value)
    return total


def _accumulate(b: FunctionBuilder, total: Value, term: str, factor: int, value: Value) -> Value:
    if total.text == "0" and factor == 1:
        return value
    if total.text == "0":
        return b.defined_once(f"mul nsw {b.index} {term}, {factor}", value)
    if factor == -1:
        return b.defined_once(f"sub nsw {b.index} {total.text}, {term}", total, value)
    if factor != 1:
        value = b.defined_once(f"mul nsw {b.index} {term}, {factor}", value)
    return b.defined_once(f"add nsw {b.index} {total.text}, {value.text}", total, value)


def _wide_product(b: FunctionBuilder, expr: e.Mul) -> Value:
    if expr.dtype.code != "int":
        return _wide_leaf(b, expr)
    if isinstance(expr.a, IntImm) or isinstance(expr.b, IntImm):
        return _wide_sum(b, expr)
    x, y = wide(b, expr.a), wide(b, expr.b)
    return b.defined_once(f"mul nsw {b.index} {x.text}, {y.text}", x, y)


def _wide_division(b: FunctionBuilder, expr: e.BinaryExpr) -> Value:
    """Division by a power of two: a shift or mask at full width; any other divides in its own type."""
    divisor = constant_lane(expr.b)
    if expr.dtype.code != "int" or divisor <= 0 or divisor & (divisor - 1):
        return _wide_leaf(b, expr)
    x = wide(b, expr.a)
    if type(expr) is e.FloorMod:
        return b.define(f"and {b.index} {x.text}, {divisor - 1}", x)
    shift = "lshr" if nonnegative(b, expr.a) else "ashr"
    return b.define(f"{shift} {b.index} {x.text}, {divisor.bit_length() - 1}", x)


def _wide_cast(b: FunctionBuilder, expr: e.Cast) -> Value:
    inner = expr.value.dtype
    if expr.dtype == "int64" and inner.is_int and inner.lanes == 1:
        return wide(b, expr.value)
    return _wide_leaf(b, expr)


_WIDEN: dict[type, Any] = {
    e.Var: _wide_variable,
    e.SizeVar: _wide_variable,
    e.Add: _wide_sum,
    e.Sub: _wide_sum,
    e.Mul: _wide_product,
    e.FloorDiv: _wide_division,
    e.FloorMod: _wide_division,
    e.Cast: _wide_cast,
}


def _by_depth(b: FunctionBuilder, terms: list[tuple[Expr, int]]) -> list[tuple[int, list[tuple[str, int, Value]]]]:
    """The terms' values grouped by the depth of the scope that computes them, outermost first; equal terms merged."""
    factors: dict[Expr, int] = {}
    for expr, factor in terms:
        factors[expr] = factors.get(expr, 0) + factor
    groups: dict[int, list[tuple[str, int, Value]]] = {}
    for expr, factor in factors.items():
        if factor:
            value = wide(b, expr)
            groups.setdefault(value.depth, []).append((value.text, factor, value))
    return sorted(groups.items(), key=lambda item: item[0])


def _row(b: FunctionBuilder, buffer: Buffer, index: Expr) -> tuple[Value, int]:
    """The address of ``buffer[index]`` without its constant term, and that term."""
    terms, constant = split_index(index)
    key = ("row", buffer, index)
    pointer = b.memo.get(key)
    if pointer is None:
        pointer = b.buffers.get(buffer)
        if pointer is None:
            raise InternalError(f"buffer {buffer.name!r} is used outside the statement that allocates or declares it")
        element = element_type(buffer.dtype)
        for _, group in _by_depth(b, terms):
            total = Value("0")
            for text, factor, value in group:
                total = _accumulate(b, total, text, factor, value)
            pointer = b.defined_once(
                f"getelementptr {element}, ptr {pointer.text}, {b.index} {total.text}", pointer, total
            )
        b.remember(key, pointer)
    return pointer, constant


def address(b: FunctionBuilder, buffer: Buffer, index: Expr, extra: int = 0) -> Value:
    """The address of ``buffer[index + extra]`` (both in elements)."""
    element = element_type(buffer.dtype)
    pointer, constant = _row(b, buffer, index)
    offset, flag = constant + extra, ""
    if b.index == "i32":
        rises = _rises(b, index)
        if pointer.text != b.buffers[buffer].text:
            pointer, begin = _beginning(b, pointer, element, 0 if rises else offset)
            offset -= begin
        flag = " nuw" if offset >= 0 and (rises or offset * buffer.dtype.itemsize < _LOWEST) else ""
    if offset == 0:
        return pointer
    return b.defined_once(f"getelementptr{flag} {element}, ptr {pointer.text}, {b.index} {offset}", pointer)


def _beginning(b: FunctionBuilder, row: Value, element: str, offset: int) -> tuple[Value, int]:
    """An address to which constants are added without wrapping, and its offset from `row`: that of its first access.

    A load of a machine of 32-bit addresses adds a constant that LLVM knows not to wrap. It would take such constants
    into loop counters instead, so what they are added to is opaque.
    """
    begin = b.memo.get(("begin", row.text))
    if begin is None:
        begin = row._replace(text=str(offset))
        b.remember(("begin", row.text), begin)
    if begin.text != "0":
        row = b.defined_once(f"getelementptr {element}, ptr {row.text}, {b.index} {begin.text}", row)
    callee = b.module.declare("llvm.strip.invariant.group.p0", "ptr", "ptr")
    return b.defined_once(f"call ptr {callee}(ptr {row.text})", row), int(begin.text)


def _rises(b: FunctionBuilder, index: Expr) -> bool:
    """True if no term of `index` takes an address below its buffer."""
    return all(factor > 0 and nonnegative(b, expr) for expr, factor in split_index(index)[0])


def alignment(buffer: Buffer, index: Expr, extra: int = 0) -> int:
    """Alignment in bytes to state for an access: that of an element, or more where a local buffer's index shows it.

    Global buffers come from callers, who promise no more than their elements' alignment; unaligned vector moves cost
    nothing extra on aligned addresses.
    """
    size = buffer.dtype.itemsize
    if buffer.scope != "local":
        return size
    terms, constant = split_index(index)
    common = math.gcd(constant + extra, *(factor for _, factor in terms)) * size
    return min(64, common & -common) if common else 64


# ---------------------------------------------------------------------------------------------- loads and stores
def flat_index(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """The one index of an access to a flat buffer."""
    if len(indices) != 1:
        raise InternalError(f"{buffer.name} has {len(indices)} dimensions in the code generator; flatten buffers first")
    return indices[0]


def load(b: FunctionBuilder, expr: e.BufferLoad) -> Value:
    """A load: one vector move for stride 1, shuffled moves for strides -1 and 2, else lane by lane."""
    buffer, index = expr.buffer, flat_index(expr.buffer, expr.indices)
    check_lanes(expr.dtype)
    lanes = expr.dtype.lanes
    if lanes == 1:
        return _move_in(b, buffer, index, 0, 1)
    if isinstance(index, e.Broadcast):
        return broadcast_value(b, _move_in(b, buffer, index.value, 0, 1), expr.dtype)
    stride = index.stride.value if isinstance(index, e.Ramp) and isinstance(index.stride, IntImm) else None
    base = index.base if isinstance(index, e.Ramp) else index
    if stride == 1:
        return _move_in(b, buffer, base, 0, lanes)
    if stride == -1:
        part = _move_in(b, buffer, base, 1 - lanes, lanes)
        return permute(b, part, "poison", register_type(expr.dtype), range(lanes - 1, -1, -1), part)
    if stride == 2:
        low, high = _move_in(b, buffer, base, 0, lanes), _move_in(b, buffer, base, lanes - 1, lanes)
        picks = [2 * i if 2 * i < lanes else 2 * i + 1 for i in range(lanes)]
        return permute(b, low, high.text, register_type(expr.dtype), picks, low, high)
    bytes_ = byte_index(b, buffer, index)
    if bytes_ is not None:
        width = lookup_lanes(b.target) or ENTRIES
        table = [_move_in(b, buffer, IntImm("int32", 0), first, width) for first in range(0, ENTRIES, width)]
        return lookup(b, table, bytes_)
    return _gather(b, expr, _lane_positions(b, index))


def _move_in(b: FunctionBuilder, buffer: Buffer, index: Expr, extra: int, lanes: int) -> Value:
    dtype = buffer.dtype.with_lanes(lanes)
    pointer = address(b, buffer, index, extra)
    return load_from(b, pointer, dtype, alignment(buffer, index, extra), b.load_depth(buffer), b.root(buffer))


def load_from(b: FunctionBuilder, pointer: Value, dtype: DType, align: int, depth: int, root: Any) -> Value:
    """A value of `dtype` read at `pointer`, in memory `root`, no further out than `depth`."""
    kind = memory_type(dtype)
    key = (root, kind, pointer.text)  # views of one position with lifetimes apart are different memory
    found = b.memo.get(key)
    if found is None:
        value = b.define(f"load {kind}, ptr {pointer.text}, align {align}", pointer, depth=depth)
        found = Value(value.text, value.depth, value.reads | {root})
        if dtype.is_bool:
            zero = "zeroinitializer" if dtype.lanes > 1 else "0"
            found = b.define(f"icmp ne {kind} {found.text}, {zero}", found)
        b.remember(key, found)
    return found


def _lane_positions(b: FunctionBuilder, index: Expr) -> list[tuple[Expr, int]]:
    """The scalar index and constant of each lane of a vector index."""
    lanes = index.dtype.lanes
    if isinstance(index, e.Ramp):
        if isinstance(index.stride, IntImm):
            return [(index.base, index.stride.value * i) for i in range(lanes)]
        return [(op.add(index.base, op.multiply(index.stride, i)), 0) for i in range(lanes)]
    vector = b.value(index)
    kind = register_type(index.dtype)
    positions: list[tuple[Expr, int]] = []
    for lane in range(lanes):
        value = b.defined_once(f"extractelement {kind} {vector.text}, i64 {lane}", vector)
        var = b.lanes.get((index, lane))
        if var is None:
            var = b.lanes[index, lane] = e.Var("lane", index.dtype.element)
        b.remember(var, value)
        positions.append((var, 0))
    return positions


def _gather(b: FunctionBuilder, expr: e.BufferLoad, positions: list[tuple[Expr, int]]) -> Value:
    lanes = [_move_in(b, expr.buffer, index, extra, 1) for index, extra in positions]
    return gather_lanes(b, lanes, register_type(expr.dtype), register_type(expr.dtype.element))


def store(b: FunctionBuilder, buffer: Buffer, index: Expr, value: Value, dtype: DType) -> None:
    """Write `value` of `dtype` at ``buffer[index]``: one move for stride 1, else lane by lane."""
    check_lanes(dtype)
    if dtype.is_bool:
        kind = register_type(dtype)
        value = b.define(f"zext {kind} {value.text} to {memory_type(dtype)}", value)
    if dtype.lanes == 1:
        _move_out(b, buffer, index, 0, value, dtype)
    elif isinstance(index, e.Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1:
        _move_out(b, buffer, index.base, 0, value, dtype)
    else:
        for lane, (position, extra) in enumerate(_lane_positions(b, index)):
            part = b.define(f"extractelement {memory_type(dtype)} {value.text}, i64 {lane}", value)
            _move_out(b, buffer, position, extra, part, dtype.element)
    b.forget(b.root(buffer))


def _stays(b: FunctionBuilder, pointer: Value) -> bool:
    """True if `pointer` is the same in each iteration of the innermost loop."""
    depth = b.depth
    while depth > pointer.depth and b.scopes[depth].kind != "loop":
        depth -= 1
    return depth > pointer.depth


def _move_out(b: FunctionBuilder, buffer: Buffer, index: Expr, extra: int, value: Value, dtype: DType) -> None:
    pointer = address(b, buffer, index, extra)
    is_register = buffer.scope == "local" and isinstance(index, IntImm)  # once `sroa` is through
    if b.root(buffer) in value.reads and _stays(b, pointer) and not is_register:
        b.module.needs_loop_passes = True  # to keep the sum in a register
    b.line(f"store {memory_type(dtype)} {value.text}, ptr {pointer.text}, align {alignment(buffer, index, extra)}")
