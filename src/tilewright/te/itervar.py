"""Iteration axes: the named, ranged variables that computations are written over and schedules are made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any

from tilewright.support.dtype import DType
from tilewright.tir import op as tir_op
from tilewright.tir.arith.range import Range
from tilewright.tir.expr import Expr, SizeVar, Var
from tilewright.tir.operators import ExprOp


class IterType(Enum):
    """The relation of an axis's iterations to each other."""

    DATA_PAR = "data_par"  # independent: each makes its own elements
    REDUCE = "reduce"  # combined by a reducer
    THREAD = "thread"  # one per hardware thread
    ORDERED = "ordered"  # each needs the ones before it


class IterVar(ExprOp):
    """An axis: `var` runs over `dom` (None while it is to be inferred). Identity is the object.

    `iter_type` says how iterations relate, `thread_tag` names the hardware axis of a THREAD one. An IterVar may stand
    in an expression wherever its variable may.
    """

    __slots__ = ("dom", "iter_type", "thread_tag", "var")

    DATA_PAR, REDUCE, THREAD, ORDERED = IterType.DATA_PAR, IterType.REDUCE, IterType.THREAD, IterType.ORDERED
    #: The same, and how a schedule marks loops, as `Stage.iter_var_attrs[axis].iter_type` says.
    DataPar, CommReduce, ThreadIndex, Ordered = DATA_PAR, REDUCE, THREAD, ORDERED
    Unrolled, Vectorized, Parallelized, Tensorized = "unrolled", "vectorized", "parallel", "tensorized"

    def __init__(self, dom: Range | None, var: Var, iter_type: IterType, thread_tag: str = "") -> None:
        self.dom = dom
        self.var = var
        self.iter_type = iter_type
        self.thread_tag = thread_tag

    @property
    def name(self) -> str:
        """The name of the variable."""
        return self.var.name

    def as_expr(self) -> Var:
        """The variable, for use in an expression."""
        return self.var

    def __repr__(self) -> str:
        span = "" if self.dom is None else f" in [{self.dom.min!r}, {self.dom.min!r} + {self.dom.extent!r})"
        return f"{self.iter_type.value} axis {self.name}{span}"


def as_index(value: Any) -> Expr:
    """`value` as an index expression: Python integers become constants of the index type, int32 if none is open.

    Raises TypeError for anything that is not an integer, an integer expression or an axis.
    """
    if isinstance(value, Expr):
        expr = value
    elif hasattr(value, "as_expr"):
        expr = value.as_expr()
    elif isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{value!r} cannot be an index or a size: pass an integer or an integer expression")
    else:
        return _index_constant(value.__index__())
    if not expr.dtype.is_int:
        raise TypeError(f"an index or a size must be an integer; {expr!r} is {expr.dtype}")
    return expr


_INDEX_TYPE: ContextVar[str] = ContextVar("tilewright_index_type", default="int32")


@contextmanager
def index_type(dtype: str) -> Iterator[None]:
    """Within the block, sizes given as Python integers, and the axes over them, have `dtype`: "int32" or "int64"."""
    token = _INDEX_TYPE.set(dtype)
    try:
        yield
    finally:
        _INDEX_TYPE.reset(token)


def index_dtype() -> DType:
    """The dtype set by `index_type`, int32 by default."""
    return DType(_INDEX_TYPE.get())


def _index_constant(value: int) -> Expr:
    dtype = index_dtype()
    low, high = dtype.limits()
    if not low <= value <= high:
        raise TypeError(f'{value} is no {dtype}; sizes and indices beyond it need `with te.index_type("int64")`')
    return tir_op.const(value, dtype)


def reduce_axis(dom: Any, name: str = "rv") -> IterVar:
    """An axis to reduce over: `dom` is a pair (begin, end), end not included, or a `Range`."""
    span = _range_of(dom)
    return IterVar(span, Var(name, span.extent.dtype), IterType.REDUCE)


def thread_axis(dom: Any = None, tag: str = "", name: str = "") -> IterVar:
    """A hardware thread axis to bind loops to, as in `te.thread_axis("threadIdx.x")`.

    Raises ValueError without such a name.
    """
    if isinstance(dom, str):
        dom, tag = None, dom
    if not tag:
        raise ValueError('te.thread_axis needs the name of a hardware axis, e.g. te.thread_axis("threadIdx.x")')
    return IterVar(None if dom is None else _range_of(dom), Var(name or tag), IterType.THREAD, tag)


def var(name: str = "n", dtype: str = "int32") -> Var:
    """A variable of any value, such as a scalar parameter."""
    return Var(name, dtype)


def size_var(name: str = "n", dtype: str = "int32", hint: int = 256) -> SizeVar:
    """A variable of at least 0, such as a symbolic extent; schedules choose tiles that are good at the size `hint`."""
    return SizeVar(name, dtype, hint)


def _range_of(dom: Any) -> Range:
    if isinstance(dom, Range):
        return dom
    if isinstance(dom, (tuple, list)) and len(dom) == 2:
        low, high = as_index(dom[0]), as_index(dom[1])
        return Range(low, high - low)
    if hasattr(dom, "__index__") or isinstance(dom, Expr):
        raise TypeError(f"an axis takes a pair (begin, end), e.g. (0, {dom!r}); got {dom!r}")
    raise TypeError(f"an axis takes a pair (begin, end); got {dom!r}")
