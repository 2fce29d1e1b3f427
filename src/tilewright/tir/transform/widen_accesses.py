"""Move neighbouring elements as one: loads and stores of vectors as accesses of up to 16 bytes."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Ramp
from tilewright.tir.stmt import Allocate, BufferStore, For, LetStmt, PrimFunc, Stmt, seq
from tilewright.tir.tensor_core import effect
from tilewright.tir.visitor import Rewriter, StmtRewriter

#: Bytes from which on an access is a vector's.
_LEAST = 4
#: Where vectors lie as such; registers need no access.
_MEMORY = ("global", "shared", "shared.dyn")


def widen_accesses(func: PrimFunc, widest: int = 16) -> PrimFunc:
    """`func` with vectors loaded to, and stored from, local arrays at once, `widest` bytes an access.

        y[ramp(i*8, 1, 8)] = x[ramp(i*8, 1, 8)] + 1        (float16)
    =>
        x_lanes = allocate(float16[8], scope="local"); y_lanes = …
        copy_vector(x_lanes[0], x[i*8], 16)
        y_lanes[ramp(0, 1, 8)] = x_lanes[ramp(0, 1, 8)] + 1
        copy_vector(y[i*8], y_lanes[0], 16)

    Only accesses known to be aligned to what they move change, and no loads that a condition keeps from being made.
    With `widest` 0 nothing changes. Runs on flat buffers, before `scalarize_vectors`.
    """
    return _Widener(widest)(func) if widest else func


class _Widener(StmtRewriter):
    def __init__(self, widest: int) -> None:
        super().__init__()
        self.widest = widest
        self.analyzer = Analyzer()

    def visit_For(self, loop: For) -> Stmt:
        """A loop, whose variable's range tells what is aligned."""
        self.analyzer.bind(loop.var, (loop.min, loop.extent))
        return self.rebuild(loop)

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        """A name, whose value tells what is aligned."""
        if stmt.value.dtype.is_int and stmt.value.dtype.lanes == 1:
            self.analyzer.bind(stmt.var, stmt.value)
        return self.rebuild(stmt)

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        """A store of a vector, with its loads."""
        lanes = stmt.value.dtype.lanes
        if lanes == 1:
            return stmt
        loads = _Loads(self)
        value = loads(stmt.value)
        made: Stmt = BufferStore(stmt.buffer, value, stmt.indices)
        after: list[Stmt] = []
        arrays = list(loads.arrays.values())
        size = self.access_bytes(stmt.buffer, stmt.indices, lanes)
        if size:
            held = _array(stmt.buffer, lanes)
            made = BufferStore(held, value, (Ramp(op.const(0), op.const(1), lanes),))
            after = self.copies(stmt.buffer, _base(stmt.indices), held, lanes, size, store=True)
            arrays.append(held)
        if not arrays:
            return stmt
        body = seq(*loads.copies, made, *after)
        for array in arrays:
            body = Allocate(array, body)
        return body

    def access_bytes(self, buffer: Buffer, indices: tuple[Expr, ...], lanes: int) -> int:
        """The bytes of each access that moves a vector; 0 where elements move alone."""
        if buffer.scope not in _MEMORY or buffer.dtype.is_bool or len(indices) != 1:
            return 0
        (index,) = indices
        if not isinstance(index, Ramp) or not op.is_const(index.stride, 1):
            return 0
        itemsize = buffer.dtype.itemsize
        step, base = self.analyzer.modular_set(self.analyzer.simplify(index.base))
        size = self.widest
        while size >= max(_LEAST, itemsize):
            elements = size // itemsize
            if lanes % elements == 0 and step % elements == 0 and base % elements == 0:
                return size if elements > 1 else 0
            size //= 2
        return 0

    def copies(self, buffer: Buffer, base: Expr, held: Buffer, lanes: int, size: int, store: bool) -> list[Stmt]:
        """The accesses of one vector."""
        made = []
        for lane in range(0, lanes, size // buffer.dtype.itemsize):
            memory, register = buffer[base + lane if lane else base], held[lane]
            pair = (memory, register) if store else (register, memory)
            made.append(effect("copy_vector", *pair, size))
        return made


class _Loads(Rewriter):
    """The loads of one statement made loads of local arrays."""

    def __init__(self, widener: _Widener) -> None:
        super().__init__()
        self.widener = widener
        self.arrays: dict[BufferLoad, Buffer] = {}
        self.copies: list[Stmt] = []

    def visit_BufferLoad(self, load: BufferLoad) -> Expr:
        """The same lanes from an array, where they can be loaded at once."""
        lanes = load.dtype.lanes
        size = self.widener.access_bytes(load.buffer, load.indices, lanes) if lanes > 1 else 0
        if not size:
            return load
        held = self.arrays.get(load)
        if held is None:
            held = self.arrays[load] = _array(load.buffer, lanes)
            self.copies += self.widener.copies(load.buffer, _base(load.indices), held, lanes, size, store=False)
        return BufferLoad(held, (Ramp(op.const(0), op.const(1), lanes),))

    def visit_Call(self, call: Call) -> Expr:
        """Loads under a condition stay where they are."""
        return call if call.op == "if_then_else" else self.rebuild(call)


def _array(buffer: Buffer, lanes: int) -> Buffer:
    return Buffer(f"{buffer.name}_lanes", [IntImm("int32", lanes)], str(buffer.dtype), "local")


def _base(indices: tuple[Expr, ...]) -> Expr:
    (index,) = indices
    assert isinstance(index, Ramp)
    return index.base
