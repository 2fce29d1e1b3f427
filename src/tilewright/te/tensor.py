"""Tensors: the values that tensor expressions produce and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.support.dtype import DType
from tilewright.te.itervar import as_index
from tilewright.tir.expr import Expr, ProducerLoad

if TYPE_CHECKING:
    from tilewright.te.operation import Operation


class Tensor:
    """Output `value_index` of the operation `op`: `shape` is a tuple of expressions, `dtype` the element type.

    `T[i, j]` (or `T(i, j)`) reads an element inside `te.compute`. Identity is the object; `op.output(i)` always gives
    the same one.
    """

    __slots__ = ("__weakref__", "dtype", "name", "op", "shape", "value_index")

    def __init__(self, op: Operation, value_index: int, shape: tuple[Expr, ...], dtype: str, name: str) -> None:
        self.op = op
        self.value_index = value_index
        self.shape = shape
        self.dtype = DType(dtype)
        self.name = name

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __call__(self, *indices: Any) -> ProducerLoad:
        if len(indices) != len(self.shape):
            raise TypeError(f"{self.name} has {len(self.shape)} dimensions and is read with {len(indices)} indices")
        return ProducerLoad(self, tuple([as_index(i) for i in indices]))

    def __getitem__(self, indices: Any) -> ProducerLoad:
        return self(*indices) if isinstance(indices, tuple) else self(indices)

    def __repr__(self) -> str:
        return f"Tensor {self.name}: {self.dtype}[{', '.join(repr(s) for s in self.shape)}]"
