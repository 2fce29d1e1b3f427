"""Classes of loop IR that classic programs call with plain numbers and lists: `tir.Evaluate(0)`, `tir.Ramp(0, 1, 4)`.

Each stands for this package's own class: calling it makes a node of that class, and `isinstance` tests for that class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from tilewright import tir
from tilewright.compat.ir.meanings import only
from tilewright.compat.runtime.stands_for import StandsFor, stands_for
from tilewright.errors import InputError
from tilewright.support.dtype import DType
from tilewright.tir import op
from tilewright.tir.buffer import Buffer, BufferVar
from tilewright.tir.ir_builder import BufferVar as BuilderBuffer

_class = stands_for


def _pair(own: Any) -> Any:
    return _class(own, lambda a, b, span=None: own(*op.match(a, b)))


def _condition(value: Any) -> tir.Expr:
    return op.convert(value)


def _exprs(values: Any) -> tuple[Any, ...]:
    return tuple(op.convert(value) for value in (values if isinstance(values, Sequence) else [values]))


def _intrinsic(called: Any) -> str:
    """The name of what is called, which classic programs write with its namespace, or as the operator itself."""
    return (called if isinstance(called, str) else str(called.name)).removeprefix("tir.")


Add, Sub, Mul, Div, Mod = map(_pair, (tir.Add, tir.Sub, tir.Mul, tir.Div, tir.Mod))
FloorDiv, FloorMod, Min, Max = map(_pair, (tir.FloorDiv, tir.FloorMod, tir.Min, tir.Max))
EQ, NE, LT, LE, GT, GE = map(_pair, (tir.EQ, tir.NE, tir.LT, tir.LE, tir.GT, tir.GE))
And, Or = map(_pair, (tir.And, tir.Or))
Not = _class(tir.Not, lambda a, span=None: tir.Not(_condition(a)))
Cast = _class(tir.Cast, lambda dtype, value, span=None: tir.Cast(dtype, op.convert(value)))
Select = _class(
    tir.Select,
    lambda condition, true_value, false_value, span=None: tir.Select(
        _condition(condition), *op.match(true_value, false_value)
    ),
)
Ramp = _class(tir.Ramp, lambda base, stride, lanes, span=None: tir.Ramp(*op.match(base, stride), int(lanes)))
Broadcast = _class(tir.Broadcast, lambda value, lanes, span=None: tir.Broadcast(op.convert(value), int(lanes)))
Let = _class(tir.Let, lambda var, value, body, span=None: tir.Let(var, op.convert(value), op.convert(body)))
Call = _class(tir.Call, lambda dtype, op, args, span=None: tir.Call(dtype, _intrinsic(op), _exprs(args)))
Evaluate = _class(tir.Evaluate, lambda value, span=None: tir.Evaluate(op.convert(value)))
LetStmt = _class(tir.LetStmt, lambda var, value, body, span=None: tir.LetStmt(var, op.convert(value), body))
SeqStmt = _class(tir.SeqStmt, lambda seq, span=None: tir.SeqStmt(tuple(seq)))
IfThenElse = _class(
    tir.IfThenElse,
    lambda condition, then_case, else_case=None, span=None: tir.IfThenElse(_condition(condition), then_case, else_case),
)
AttrStmt = _class(
    tir.AttrStmt,
    lambda node, attr_key, value, body, span=None: tir.AttrStmt(attr_key, node, op.convert(value), body),
)
AssertStmt = _class(
    tir.AssertStmt,
    lambda condition, message, body, span=None: tir.AssertStmt(
        _condition(condition), getattr(message, "value", message), body
    ),
)
BufferLoad = _class(tir.BufferLoad, lambda buffer, indices, span=None: tir.BufferLoad(buffer, _exprs(indices)))
BufferStore = _class(
    tir.BufferStore,
    lambda buffer, value, indices, span=None: tir.BufferStore(buffer, op.convert(value), _exprs(indices)),
)


_POINTED: WeakKeyDictionary[tir.Var, dict[str, Buffer]] = WeakKeyDictionary()


def pointed(buffer_var: tir.Expr, dtype: str) -> Buffer:
    """The buffer of elements of `dtype` at an address: always the same for the same variable.

    The address may be a buffer's own (`Buffer.data`).
    """
    if isinstance(buffer_var, BufferVar | BuilderBuffer):
        return buffer_var.buffer
    if isinstance(buffer_var, tir.Call) and buffer_var.op == "address_of":
        (first,) = buffer_var.args
        assert isinstance(first, tir.BufferLoad)
        return first.buffer
    if not isinstance(buffer_var, tir.Var):
        raise InputError(f"the address {buffer_var} must be a variable, or the data of a buffer")
    if buffer_var.dtype != "handle":
        raise InputError(f"the address {buffer_var} is a {buffer_var.dtype}: it must be a variable of the type handle")
    known = _POINTED.setdefault(buffer_var, {})
    if dtype not in known:
        known[dtype] = Buffer(buffer_var.name, (tir.Var("elements"),), dtype)
    return known[dtype]


#: Predicates that hold for every element.
_ALWAYS = (True, 1, tir.const(True, "bool"), tir.const(1, "int32"))


def _everywhere(function: str, predicate: Any) -> None:
    """Raise `UnsupportedError` for a predicate that may leave an element out."""
    one = predicate.value if isinstance(predicate, tir.Broadcast) else predicate
    only(function, "predicate", one, *_ALWAYS)


def _load(dtype: str, buffer_var: tir.Var, index: Any, predicate: Any = None, span: Any = None) -> tir.Expr:
    _everywhere("tir.Load", predicate)
    index = op.convert(index)
    element = DType(dtype).element
    return tir.BufferLoad(pointed(buffer_var, str(element)), (index,))


def _store(buffer_var: tir.Var, value: Any, index: Any, predicate: Any = None, span: Any = None) -> tir.Stmt:
    _everywhere("tir.Store", predicate)
    value = op.convert(value)
    return tir.BufferStore(pointed(buffer_var, str(value.dtype.element)), value, (op.convert(index),))


Load = _class(tir.BufferLoad, _load)
Store = _class(tir.BufferStore, _store)


def _for(
    loop_var: tir.Var,
    min_val: Any,
    extent: Any,
    kind: Any,
    body: tir.Stmt,
    thread_binding: Any = None,
    annotations: Mapping[str, Any] | None = None,
    span: Any = None,
) -> tir.For:
    if isinstance(thread_binding, tir.Stmt):  # v0.7 has the number of a device before the body
        body = thread_binding
    else:
        only("tir.For", "thread_binding", thread_binding)
    low, count = (op.cast(loop_var.dtype, op.convert(value)) for value in (min_val, extent))
    kinds = list(tir.ForKind)  # in the order of the classic numbers
    chosen = kinds[kind] if isinstance(kind, int) else tir.ForKind(kind)
    return tir.For(loop_var, low, count, chosen, body, annotations=dict(annotations or {}))


For = _class(tir.For, _for, Serial=0, Parallel=1, Vectorized=2, Unrolled=3)


def _prim_func(
    params: Sequence[Any],
    body: tir.Stmt,
    ret_type: Any = None,
    buffer_map: Mapping[Any, Buffer] | None = None,
    attrs: Mapping[str, Any] | None = None,
    span: Any = None,
) -> tir.PrimFunc:
    """A function of buffers and scalars. Handles among `params` name their buffers in `buffer_map`, or are those that
    `Load` and `Store` in `body` go to."""
    given = [param.buffer if isinstance(param, BuilderBuffer) else param for param in params]
    given = [(buffer_map or {}).get(param, param) for param in given]
    given = [_only_buffer(param) if isinstance(param, tir.Var) else param for param in given]
    for param in given:
        if not isinstance(param, Buffer) and param.dtype == "handle":
            raise InputError(f"the parameter {param} is an address: say by buffer_map which buffer it is of")
    found = dict(attrs or {})
    return tir.PrimFunc(str(found.pop("global_symbol", "main")), given, body, found)


def _only_buffer(param: tir.Var) -> Any:
    """The buffer at an address that loads and stores have gone to; the variable itself if there is none."""
    buffers = list(_POINTED.get(param, {}).values())
    if len(buffers) > 1:
        types = ", ".join(str(buffer.dtype) for buffer in buffers)
        raise InputError(f"{param} is the address of several types of elements ({types}): say by buffer_map of which")
    return buffers[0] if buffers else param


PrimFunc = _class(tir.PrimFunc, _prim_func)

__all__ = [name for name, value in list(globals().items()) if isinstance(value, StandsFor)]
