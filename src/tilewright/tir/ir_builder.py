"""A builder for loop IR written by hand, statement by statement, as Python `with` blocks.

ib = tir.ir_builder.create()
a, c = ib.buffer_ptr(A), ib.buffer_ptr(C)
with ib.for_range(0, n, name="i") as i:
    with ib.if_scope(i % 2 < 1):
        c[i] = a[i] + 1
    with ib.else_scope():
        c[i] = 0.0
body = ib.get()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, Var
from tilewright.tir.position import Position, caller
from tilewright.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    seq,
)


class BufferVar:
    """A buffer under construction's hands: `b[i, j]` reads, `b[i, j] = x` emits a store.

    One index into a buffer of several dimensions counts its elements in memory order.
    """

    def __init__(self, builder: IRBuilder, buffer: Buffer) -> None:
        self.builder = builder
        self.buffer = buffer

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.buffer.dtype

    def _indices(self, given: Any) -> tuple[Expr, ...]:
        indices = [op.convert(i) for i in (given if isinstance(given, tuple) else (given,))]
        shape = self.buffer.shape
        if len(indices) == len(shape):
            return tuple(indices)
        if len(indices) != 1:
            raise TypeError(
                f"{self.buffer.name} has {len(shape)} dimensions and is accessed with {len(indices)} indices"
            )
        rest, positions = indices[0], []
        for size in reversed(shape[1:]):
            positions.append(rest % size)
            rest = rest // size
        return (rest, *reversed(positions))

    def __getitem__(self, indices: Any) -> Expr:
        return BufferLoad(self.buffer, self._indices(indices))

    def __setitem__(self, indices: Any, value: Any) -> None:
        value = op.convert(value, self.buffer.dtype)
        if value.dtype.element != self.buffer.dtype.element:
            raise TypeError(f"ir_builder: {self.buffer.name} holds {self.buffer.dtype}; it cannot take {value.dtype}")
        store = BufferStore(self.buffer, value, self._indices(indices))
        self.builder.emit(store.at(self.builder.where()))


class IRBuilder:
    """Collects statements; `get` returns them as one. They have the position of emission, or `position` if set."""

    def __init__(self) -> None:
        self.position: Position | None = None
        self._blocks: list[list[Stmt | Callable[[Stmt], Stmt]]] = [[]]

    def emit(self, stmt: Stmt | Expr) -> None:
        """Append a statement, or a call for its effect."""
        if isinstance(stmt, Expr):
            stmt = Evaluate(stmt)
        if not isinstance(stmt, Stmt):
            raise TypeError(f"ir_builder: emit takes a statement or a call; got {stmt!r}")
        self._blocks[-1].append(stmt.at(self.where()))

    def where(self, depth: int = 1) -> Position:
        """The position of what is emitted now: the line that calls the caller, or calls that one for a larger depth."""
        return self.position or caller(depth + 1)

    def get(self) -> Stmt:
        """Everything emitted, as one statement. Raises ValueError within an open `with` block."""
        if len(self._blocks) != 1:
            raise ValueError("ir_builder: get() within an open block; call it after the last `with`")
        return self._close(self._blocks[0])

    @staticmethod
    def _close(block: list[Stmt | Callable[[Stmt], Stmt]]) -> Stmt:
        """The statements of a block; a function in it takes all that follows it as its body."""
        after: list[Stmt] = []
        for item in reversed(block):
            after = [item, *after] if isinstance(item, Stmt) else [item(seq(*after))]
        return seq(*after)

    @contextmanager
    def _block(self, wrap: Callable[[Stmt], Stmt]) -> Iterator[None]:
        where = self.where(4)  # beyond the two functions of `contextlib` and the method that opens the block
        self._blocks.append([])
        try:
            yield
        finally:
            block = self._blocks.pop()
        self.emit(wrap(self._close(block)).at(where))

    # ----------------------------------------------------------------------------------------------- blocks
    @contextmanager
    def for_range(
        self, begin: Any, end: Any, name: str = "i", dtype: str | None = None, kind: str = "serial"
    ) -> Iterator[Var]:
        """A loop over begin, …, end - 1; `kind` is serial, parallel, vectorized (or "vectorize") or unrolled."""
        kinds = {"vectorize": "vectorized", "unroll": "unrolled"}
        try:
            chosen = ForKind(kinds.get(kind, kind))
        except ValueError:
            known = ", ".join(k.value for k in ForKind)
            raise ValueError(f"ir_builder: a loop of kind {kind!r}; known are {known}") from None
        low, high = op.match(op.convert(begin), op.convert(end))
        if dtype is not None:
            low, high = op.cast(dtype, low), op.cast(dtype, high)
        var = Var(name, low.dtype)
        with self._block(lambda body: For(var, low, high - low, chosen, body)):
            yield var

    @contextmanager
    def while_loop(self, condition: Any) -> Iterator[None]:
        """A loop while `condition` holds."""
        with self._block(lambda body: While(op.convert(condition), body)):
            yield

    @contextmanager
    def if_scope(self, condition: Any) -> Iterator[None]:
        """Statements under a condition."""
        with self._block(lambda body: IfThenElse(op.convert(condition), body)):
            yield

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """Statements for the case that the condition of the `if_scope` just before does not hold."""
        block = self._blocks[-1]
        if not block or not isinstance(block[-1], IfThenElse) or block[-1].else_case is not None:
            raise ValueError("ir_builder: else_scope must follow an if_scope directly")
        test = block.pop()
        assert isinstance(test, IfThenElse)
        with self._block(lambda body: IfThenElse(test.condition, test.then_case, body)):
            yield

    # ------------------------------------------------------------------------- what holds to the block's end
    def let(self, name: str, value: Any) -> Var:
        """A variable that is `value` in the rest of the block."""
        held = op.convert(value)
        var = Var(name, held.dtype)
        where = self.where()
        self._blocks[-1].append(lambda body: LetStmt(var, held, body).at(where))
        return var

    def allocate(self, dtype: str, shape: Any, name: str = "buf", scope: str = "global") -> BufferVar:
        """A buffer that exists in the rest of the block, its contents undefined at first."""
        sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
        buffer = Buffer(name, [op.convert(n) for n in sizes], dtype, scope)
        self._blocks[-1].append(lambda body: Allocate(buffer, body))
        return BufferVar(self, buffer)

    def scope_attr(self, target: Any, key: str, value: Any) -> None:
        """The rest of the block under the attribute `key` = `value` on `target`."""
        self._blocks[-1].append(lambda body: AttrStmt(key, target, value, body))

    def assert_true(self, condition: Any, message: str) -> None:
        """The call ends with `message` here unless `condition` holds."""
        held = op.convert(condition)
        where = self.where()
        self._blocks[-1].append(lambda body: AssertStmt(held, message, body).at(where))

    # -------------------------------------------------------------------------------------------- expressions
    def buffer_ptr(self, buffer: Buffer) -> BufferVar:
        """A declared buffer for reading and writing by index."""
        return BufferVar(self, buffer)

    def pointer(self, dtype: str, name: str = "ptr", shape: Any = (1,)) -> BufferVar:
        """A new buffer, to be a parameter (`.buffer`) of the function."""
        return BufferVar(self, Buffer(name, shape if isinstance(shape, (tuple, list)) else (shape,), dtype))

    def likely(self, condition: Any) -> Expr:
        """`condition`, which nearly always holds."""
        return Call("bool", "likely", (op.convert(condition),))


def create() -> IRBuilder:
    """A new, empty builder."""
    return IRBuilder()
