"""Tensors: the values that tensor expressions produce and read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.errors import TypeMismatchError
from tilewright.support.dtype import DType
from tilewright.te.itervar import as_index
from tilewright.tir import op as tir_op
from tilewright.tir.arith.analyzer import Analyzer
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

    `T[i, j]` (or `T(i, j)`) reads an element inside `te.compute`; `T[i]` is a `TensorSlice`, `T[i, 0:4]` a
    `TensorRegion`. Identity is the object; `op.output(i)` always returns the same one.

    Operators on whole tensors (`A + B`, `A * 2`, `-A`) are computations of their own, element by element with NumPy's
    broadcasting; comparisons return tensors of bools, but `==` asks whether two tensors are one.
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

    def as_region(self) -> TensorRegion:
        """All of it, as a region."""
        return TensorRegion(self, (slice(None),) * len(self.shape))

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
        if any(isinstance(index, slice) for index in given):
            return TensorRegion(self, given)
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


class TensorRegion:
    """A box of `tensor`: `T[i, 0:16]`. What an intrinsic called within `te.compute` takes.

    `shape` are the sizes of the dimensions that are given as slices; the others are at one position.
    """

    __slots__ = ("indices", "shape", "tensor")
    __iter__ = None

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        whole = (slice(None),) * (len(tensor.shape) - len(indices))
        self.tensor = tensor
        self.indices = (*indices, *whole)
        if len(self.indices) != len(tensor.shape):
            raise TypeMismatchError(f"{tensor.name} has {len(tensor.shape)} dimensions; a region has {len(indices)}")
        self.shape: list[Expr] = []
        for index, size in zip(self.indices, tensor.shape, strict=True):
            if isinstance(index, slice):
                if index.step not in (None, 1):
                    raise TypeMismatchError(f"a region of {tensor.name} takes every element, not every {index.step}th")
                stop = size if index.stop is None else index.stop
                extent = tir_op.convert(stop) - (0 if index.start is None else index.start)
                self.shape.append(Analyzer().simplify(extent))

    def element(self, inner: tuple[Expr, ...]) -> ProducerLoad:
        """The read of the element at the indices `inner`, from the start of the region."""
        left = list(inner)
        positions = []
        for index in self.indices:
            if isinstance(index, slice):
                position = left.pop(0)
                positions.append(position if index.start is None else index.start + position)
            else:
                positions.append(index)
        return self.tensor(*positions)

    def as_region(self) -> TensorRegion:
        """Itself."""
        return self

    def as_expr(self) -> Expr:
        """Raises TypeMismatchError: a region is no number."""
        raise TypeMismatchError(f"{self!r} is no number; only tensor intrinsics take regions")

    def __repr__(self) -> str:
        return f"region of {self.tensor!r} at {list(self.indices)}"
