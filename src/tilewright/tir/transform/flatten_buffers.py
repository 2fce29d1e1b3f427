"""Flatten every buffer to one dimension and every access one flat index."""

from __future__ import annotations

from typing import Any

from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Broadcast, BufferLoad, Expr, IntImm, Ramp, Var
from tilewright.tir.stmt import BufferStore, For, PrimFunc, Stmt
from tilewright.tir.transform.folding import FoldingRewriter, fold_add

LARGEST_INT32 = 2**31 - 1


def flatten_buffers(func: PrimFunc) -> PrimFunc:
    """`func` with one-dimensional buffers; a ramp in the last index stays a ramp. Indices are int64 where needed.

    a: float32[8, 16]               a: float32[128]
    a[i, j + 1] = 0         =>      a[i*16 + j + 1] = 0
    """
    flattener = _Flattener()
    params = [p if isinstance(p, Var) else flattener.visit_buffer(p) for p in func.params]
    return PrimFunc(func.name, params, flattener(func.body), func.attrs)


class _Flattener(FoldingRewriter):
    def __init__(self) -> None:
        super().__init__()
        self.analyzer = Analyzer()
        self.buffers: dict[Buffer, Buffer] = {}

    def visit_buffer(self, old: Buffer) -> Buffer:
        """The flat buffer that stands for `old`: itself if it is flat already."""
        found = self.buffers.get(old)
        if found is None:
            found = old
            if len(old.shape) != 1 or old.strides is not None:
                found = Buffer(old.name, [_span(old)], old.dtype, old.scope, None, old.alignment)
            self.buffers[old] = found
        return found

    def visit_For(self, loop: For) -> Stmt:
        """The loop, whose variable's range helps to simplify indices."""
        self.analyzer.bind(loop.var, (loop.min, loop.extent))
        return self.rebuild(loop)

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        """The store with one index."""
        buffer, value = self.visit_buffer(stmt.buffer), self(stmt.value)
        indices = self.index(stmt.buffer, stmt.indices)
        same = buffer is stmt.buffer and value is stmt.value and indices == stmt.indices
        return stmt if same else BufferStore(buffer, value, indices)

    def visit_BufferLoad(self, x: BufferLoad) -> Expr:
        """The load with one index."""
        return BufferLoad(self.visit_buffer(x.buffer), self.index(x.buffer, x.indices))

    def index(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr]:
        """The flat index of `buffer[indices]`, simplified."""
        parts = [self(i) for i in indices]
        if len(parts) == 1 and buffer.strides is None:
            return (parts[0],)
        wide = _needs_int64(buffer)
        flat: Expr = op.const(0, "int64" if wide else "int32")
        for part, stride in zip(parts, _strides(buffer), strict=True):
            part, stride = (op.cast("int64", part), op.cast("int64", stride)) if wide else (part, stride)
            flat = _add(flat, _scale(part, stride))
        return (self._simplified(flat),)

    def _simplified(self, flat: Expr) -> Expr:
        if isinstance(flat, Ramp):
            return Ramp(self.analyzer.simplify(flat.base), flat.stride, flat.lanes)
        return self.analyzer.simplify(flat) if flat.dtype.lanes == 1 else flat


def _scale(index: Expr, stride: Expr) -> Expr:
    if isinstance(index, Ramp):
        return Ramp(op.multiply(index.base, stride), op.multiply(index.stride, stride), index.lanes)
    if isinstance(index, Broadcast):
        return Broadcast(op.multiply(index.value, stride), index.lanes)
    return op.multiply(index, stride)


def _add(a: Expr, b: Expr) -> Expr:
    """a + b, where either may be a vector."""
    if isinstance(b, Ramp) and a.dtype.lanes == 1:
        return Ramp(fold_add(*op.match(a, b.base)), b.stride, b.lanes)
    a, b = op.match(a, b)
    return fold_add(a, b)


def _strides(buffer: Buffer) -> list[Expr]:
    """Elements between neighbours along each dimension."""
    if buffer.strides is not None:
        return list(buffer.strides)
    strides: list[Expr] = []
    step: Expr = op.const(1, "int32")
    for size in reversed(buffer.shape):
        strides.append(step)
        if isinstance(step, IntImm) and isinstance(size, IntImm):
            step = _integer(step.value * size.value)
        else:
            step = op.multiply(step, size)
    return strides[::-1]


def _integer(value: int) -> IntImm:
    """`value` as int32 if it fits, else as int64."""
    return IntImm("int32" if value <= LARGEST_INT32 else "int64", value)


def _span(buffer: Buffer) -> Any:
    """Elements from the first to the last of `buffer`, both included."""
    constant = _constant_span(buffer)
    if constant is not None:
        return _integer(constant)
    if buffer.strides is None:
        size: Expr = op.const(1, "int32")
        for dimension in buffer.shape:
            size = op.multiply(size, dimension)
        return size
    last: Expr = op.const(1, "int32")
    for dimension, stride in zip(buffer.shape, buffer.strides, strict=True):
        last = last + (dimension - 1) * stride
    return last


def _constant_span(buffer: Buffer) -> int | None:
    if buffer.strides is None:
        return buffer.constant_size()
    shape = buffer.constant_shape()
    if shape is None or not all(isinstance(s, IntImm) for s in buffer.strides):
        return None
    return 1 + sum((n - 1) * s.value for n, s in zip(shape, buffer.strides, strict=True))  # type: ignore[attr-defined]


def _needs_int64(buffer: Buffer) -> bool:
    span = _constant_span(buffer)
    return span is not None and span > LARGEST_INT32
