"""Tensors: the values that tensor expressions produce and read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.support.dtype import DType
from tilewright.te.itervar import as_index
from tilewright.tir import op as tir_op
from tilewright.tir.expr import Expr, ProducerLoad
from tilewright.tir.operators import Operators

if TYPE_CHECKING:
    from tilewright.te.operation import Operation


def quotient(a: Any, b: Any) -> Expr:
    """a / b of elements: of floats the quotient, of integers that rounded towards zero, as C has it."""
    a, b = tir_op.match(a, b)
    return tir_op.div(a, b) if a.dtype.is_float else tir_op.truncdiv(a, b)


class Tensor(Operators["Tensor"]):
    """Output `value_index` of the operation `op`: `shape` is a tuple of expressions, `dtype` the element type.

    `T[i, j]` (or `T(i, j)`) reads an element inside `te.compute`; `T[i]` is a `TensorSlice`. Identity is
    the object; `op.output(i)` always gives the same one.

    Operators on whole tensors (`A + B`, `A * 2`, `-A`) are computations of their own, element by element with NumPy's
    broadcasting; comparisons give tensors of bools, but `==` asks whether two tensors are one.
    """

    __slots__ = ("__weakref__", "dtype", "name", "op", "shape", "value_index")
    broadcasts = True
    __iter__ = None
    __hash__ = object.__hash__

    def __init__(self, op: Operation, value_index: int, shape: tuple[Expr, ...], dtype: str, name: str) -> None:
        self.op = op
        self.value_index = value_index
        self.shape = shape
        self.dtype = DType(dtype)
        self.name = name

    def _apply(self, function: Callable[..., Any], *operands: Any) -> Tensor:
        from tilewright.te.broadcast import nary  # it makes an operation, whose outputs are of this class

        made: Tensor = nary(function, getattr(function, "__name__", "elementwise").strip("<>"), *operands)
        return made

    def __truediv__(self, other: Any) -> Tensor:
        return self._apply(quotient, self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._apply(quotient, other, self)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __call__(self, *indices: Any) -> ProducerLoad:
        if len(indices) != len(self.shape):
            raise TypeError(f"{self.name} has {len(self.shape)} dimensions and is read with {len(indices)} indices")
        return ProducerLoad(self, tuple([as_index(i) for i in indices]))

    def __getitem__(self, indices: Any) -> Any:
        given = indices if isinstance(indices, tuple) else (indices,)
        return self(*given) if len(given) >= len(self.shape) else TensorSlice(self, given)

    def __repr__(self) -> str:
        return f"Tensor {self.name}: {self.dtype}[{', '.join(repr(s) for s in self.shape)}]"


class TensorSlice:
    """The part of `tensor` at the leading `indices`: `T[i]` is a row, `T[i][j]` an element of it."""

    __slots__ = ("indices", "tensor")
    __iter__ = None

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        self.tensor = tensor
        self.indices = indices

    @property
    def shape(self) -> tuple[Expr, ...]:
        """The dimensions that remain."""
        return self.tensor.shape[len(self.indices) :]

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.tensor.dtype

    def __getitem__(self, indices: Any) -> Any:
        return self.tensor[(*self.indices, *(indices if isinstance(indices, tuple) else (indices,)))]

    def as_expr(self) -> Expr:
        """Raises TypeError: a slice is no number."""
        raise TypeError(f"{self!r} has {len(self.shape)} more dimensions; index it to an element")

    def __repr__(self) -> str:
        return f"slice of {self.tensor!r} at {list(self.indices)}"
