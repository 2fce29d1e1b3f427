"""Buffers: named, typed, shaped storage that loop IR loads from and stores to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.support.dtype import DType
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Ramp, StringImm, Var

if TYPE_CHECKING:
    from tilewright.tir.stmt import Stmt


class Buffer:
    """Storage of `shape` elements of `dtype` in `scope`. Identity is the object, the name is for printing.

    `shape` and `strides` are tuples of expressions (integers are accepted), in elements; `strides` None means compact
    row-major. `scope` is ``"global"`` (memory all workers see), ``"local"`` (registers or stack of one worker),
    ``"shared"``, or a name a target declares. `alignment` is in bytes.
    """

    __slots__ = ("alignment", "dtype", "name", "scope", "shape", "strides")

    def __init__(
        self,
        name: str,
        shape: Sequence[Any],
        dtype: str = "float32",
        scope: str = "global",
        strides: Sequence[Any] | None = None,
        alignment: int = 64,
    ) -> None:
        self.name = name
        self.shape: tuple[Expr, ...] = tuple(_index(s) for s in shape)
        self.dtype = DType(dtype)
        self.scope = scope
        self.strides: tuple[Expr, ...] | None = None if strides is None else tuple(_index(s) for s in strides)
        self.alignment = alignment

    def constant_shape(self) -> tuple[int, ...] | None:
        """The shape as integers, or None if a dimension is symbolic."""
        sizes = [s.value for s in self.shape if isinstance(s, IntImm)]
        return tuple(sizes) if len(sizes) == len(self.shape) else None

    def constant_size(self) -> int | None:
        """Number of elements, or None if symbolic."""
        shape = self.constant_shape()
        return None if shape is None else math.prod(shape)

    @property
    def var(self) -> BufferVar:
        """The buffer's address as a variable: by it classic loads and stores name the buffer. A new one each time."""
        return BufferVar(self)

    @property
    def data(self) -> Expr:
        """The address of the first element, for calls."""
        return self.access_ptr()

    def __getitem__(self, indices: Any) -> Expr:
        """The load of the element at `indices`."""
        given = indices if isinstance(indices, tuple) else (indices,)
        return BufferLoad(self, tuple([_index(i) for i in given]))

    def vload(self, begin: Any, dtype: str | None = None) -> Expr:
        """The elements from `begin` on along the last dimension as one value of `dtype`, such as "float32x4"."""
        return BufferLoad(self, self._positions(begin, DType(dtype or self.dtype).lanes))

    def vstore(self, begin: Any, value: Expr) -> Stmt:
        """The statement that stores `value`, a scalar or vector, from `begin` on along the last dimension."""
        # stores are statements on buffers, so their module imports this one
        from tilewright.tir.stmt import BufferStore

        return BufferStore(self, value, self._positions(begin, value.dtype.lanes))

    def _positions(self, begin: Any, lanes: int) -> tuple[Expr, ...]:
        *outer, last = [_index(i) for i in (begin if isinstance(begin, (tuple, list)) else (begin,))]
        return (*outer, last if lanes == 1 else Ramp(last, IntImm(str(last.dtype), 1), lanes))

    def access_ptr(self, access_mask: str = "rw", offset: Any = 0) -> Expr:
        """The address of element number `offset` in memory order, for a call that reads or writes as the mask says."""
        if access_mask not in ("r", "w", "rw", "wr"):
            raise ValueError(f'access_ptr of {self.name}: the access is "r", "w" or "rw"; got {access_mask!r}')
        first = self[tuple([0] * len(self.shape))]
        start = Call("handle", "address_of", (first, StringImm("r")) if access_mask == "r" else (first,))
        if isinstance(offset, int) and offset == 0:
            return start
        size = IntImm("int64", self.dtype.itemsize * self.dtype.lanes)
        return Call("handle", "pointer_add", (start, _index(offset).astype("int64") * size))

    def __repr__(self) -> str:
        dims = ", ".join(repr(s) for s in self.shape)
        return f"{self.name}: {self.dtype}[{dims}]" + ("" if self.scope == "global" else f" in {self.scope}")


class BufferVar(Var):
    """The address of `buffer` as a variable, which stands in no code."""

    __slots__ = ("buffer",)
    buffer: Buffer

    def __init__(self, buffer: Buffer) -> None:
        super().__init__(buffer.name, "handle")
        object.__setattr__(self, "buffer", buffer)


def _index(value: Any) -> Expr:
    if isinstance(value, Expr):
        return value
    return value.as_expr() if hasattr(value, "as_expr") else IntImm("int32", int(value))
