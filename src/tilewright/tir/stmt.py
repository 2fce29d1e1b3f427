"""Statements of the loop IR: immutable, compared by identity, not interned (two equal stores are two events)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self

from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, Var
from tilewright.tir.node import Node, node
from tilewright.tir.position import Position

_put = object.__setattr__
_NO_ANNOTATIONS: Mapping[str, Any] = MappingProxyType({})


class ForKind(StrEnum):
    """The kind of a loop: serial, parallel, vectorized, unrolled or bound."""

    SERIAL = "serial"
    PARALLEL = "parallel"  # in static shares over the workers of the thread pool
    VECTORIZED = "vectorized"  # as lanes of vector instructions; constant extent
    UNROLLED = "unrolled"  # expanded; constant extent
    THREAD_BINDING = "thread_binding"  # one per thread of the axis `thread` ("blockIdx.x", "threadIdx.x", "vthread" …)


class Stmt(Node):
    """Base of all statements. `position` is where it was written, or None: then it is where the one around it is."""

    __slots__ = ("position",)
    position: Position | None

    def __init__(self, *values: Any) -> None:
        if len(values) != len(self.FIELDS):
            raise TypeError(f"{type(self).__name__} takes {', '.join(self.FIELDS)}; got {len(values)} values")
        for name, value in zip(self.FIELDS, values):  # as many of the one as of the other
            _put(self, name, value)
        _put(self, "position", None)

    def at(self, position: Position | None) -> Self:
        """This statement, for which `position` is noted unless one is known."""
        if self.position is None:
            _put(self, "position", position)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self.fields(), self.position)

    def __setstate__(self, position: Position) -> None:
        _put(self, "position", position)


@node
class SeqStmt(Stmt):
    """Statements in order. Build with `seq(...)`, which flattens."""

    stmts: tuple[Stmt, ...]

    def __len__(self) -> int:
        return len(self.stmts)

    def __getitem__(self, index: int) -> Stmt:
        return self.stmts[index]

    def at(self, position: Position | None) -> Self:
        """Notes it for each of them: sequences are taken apart."""
        for stmt in self.stmts:
            stmt.at(position)
        return self


@node
class For(Stmt):
    """`for var in range(min, min + extent): body`, run as `kind` says. `annotations` are hints by name (pragmas)."""

    var: Var
    min: Expr
    extent: Expr
    kind: ForKind
    body: Stmt
    thread: str
    annotations: Mapping[str, Any]

    def __init__(
        self,
        var: Var,
        min: Expr,
        extent: Expr,
        kind: ForKind,
        body: Stmt,
        thread: str = "",
        annotations: Mapping[str, Any] = _NO_ANNOTATIONS,
    ) -> None:
        Stmt.__init__(self, var, min, extent, kind, body, thread, annotations)

    @property
    def loop_var(self) -> Var:
        """The variable, by its classic name."""
        return self.var

    def __reduce__(self) -> tuple[Any, ...]:
        return (For, (*self.fields()[:-1], dict(self.annotations)), self.position)


@node
class While(Stmt):
    """`while condition: body`."""

    condition: Expr
    body: Stmt


@node
class BufferStore(Stmt):
    """`buffer[indices] = value`. Only the last index may be a vector, with the lanes of `value`."""

    buffer: Buffer
    value: Expr
    indices: tuple[Expr, ...]

    @property
    def buffer_var(self) -> Var:
        """The buffer's address, by which classic stores name it."""
        return self.buffer.var

    @property
    def index(self) -> Expr:
        """The one index into a flat buffer."""
        (only,) = self.indices
        return only


@node
class Allocate(Stmt):
    """`buffer` exists within `body`, its contents undefined at the start."""

    buffer: Buffer
    body: Stmt

    @property
    def extents(self) -> tuple[Expr, ...]:
        """The shape of the buffer."""
        return self.buffer.shape


@node
class DeclBuffer(Stmt):
    """`buffer` is a typed view, within `body`, of the memory at `address` (a handle): nothing is allocated."""

    buffer: Buffer
    address: Expr
    body: Stmt


@node
class IfThenElse(Stmt):
    """`if condition: then_case else: else_case`; `else_case` may be None."""

    condition: Expr
    then_case: Stmt
    else_case: Stmt | None

    def __init__(self, condition: Expr, then_case: Stmt, else_case: Stmt | None = None) -> None:
        Stmt.__init__(self, condition, then_case, else_case)


@node
class LetStmt(Stmt):
    """`var` is `value` within `body`."""

    var: Var
    value: Expr
    body: Stmt


@node
class AttrStmt(Stmt):
    """`body` with the attribute `key` = `value` on `target` (a variable, buffer or None); keys: docs/ir.md."""

    key: str
    target: Any
    value: Any
    body: Stmt


@node
class AssertStmt(Stmt):
    """Stops the call with `message` unless `condition` holds; `body` follows."""

    condition: Expr
    message: str
    body: Stmt


@node
class Evaluate(Stmt):
    """`value` evaluated for its effect (a call)."""

    value: Expr


def seq(*stmts: Stmt | None) -> Stmt:
    """The statements in order as one, nested sequences flattened and None left out."""
    flat: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, SeqStmt):
            flat.extend(stmt.stmts)
        elif stmt is not None:
            flat.append(stmt)
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat))


#: The attribute of a function, and the pragma of a loop, that brings LLVM IR along.
IMPORT_LLVM = "import_llvm"


class PrimFunc:
    """A function of the loop IR: `params` are `Buffer`s (passed as addresses) and scalar `Var`s, in call order.

    `attrs` may hold: "noalias" (bool, default True: buffers do not overlap), "overlapping" (numbers of parameters that
    may all the same), "workspace" (bytes of scratch memory the
    caller provides), "spmd" (bool: the body is already written for many workers), "slots" (the first parameter is an
    array of so many addresses, handed on from the packed entry as it is), "import_llvm" (texts of LLVM IR with
    functions that it calls).
    """

    __slots__ = ("attrs", "body", "name", "params")

    def __init__(
        self,
        name: str,
        params: Sequence[Buffer | Var],
        body: Stmt,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.params: tuple[Buffer | Var, ...] = tuple(params)
        self.body = body
        self.attrs: dict[str, Any] = dict(attrs or {})

    def with_body(self, body: Stmt, **attrs: Any) -> PrimFunc:
        """The same function with another body and, where given, further attributes."""
        return PrimFunc(self.name, self.params, body, {**self.attrs, **attrs})

    def with_attr(self, key: str, value: Any) -> PrimFunc:
        """The same function with one more attribute; "global_symbol" is its name."""
        if key == "global_symbol":
            return PrimFunc(str(value), self.params, self.body, self.attrs)
        return self.with_body(self.body, **{key: value})

    def __repr__(self) -> str:
        # printing is written in terms of the statements, so it imports this module
        from tilewright.tir.printer import to_text

        return to_text(self)
