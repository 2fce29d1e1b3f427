"""Values beside tensors while a graph is imported: shapes with symbolic dimensions, lists of tensors, dead branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.frontend.idioms import cast, constant, full, reshape
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


class Dims:
    """Whole numbers of which some are symbolic extents: a vector, a single one (`scalar`) or a matrix (`shape`)."""

    def __init__(
        self, extents: Sequence[Any], dtype: str = "int32", scalar: bool = False, shape: tuple[int, ...] | None = None
    ) -> None:
        self.extents = tuple(extents)
        self.dtype = dtype
        self.scalar = scalar
        self.shape = () if scalar else (len(self.extents),) if shape is None else shape

    @classmethod
    def of(cls, array: np.ndarray[Any, Any], dtype: str) -> Dims:
        """The numbers of an array of objects."""
        return cls(array.reshape(-1).tolist(), dtype, array.ndim == 0, array.shape)

    def array(self) -> np.ndarray[Any, Any]:
        """The numbers as an array of objects."""
        found = np.empty(len(self.extents), object)
        for position, extent in enumerate(self.extents):
            found[position] = extent
        return found.reshape(self.shape)

    def expression(self) -> Expr:
        """The same as a tensor: a symbolic dimension is counted by a sum of as many ones."""
        if all(isinstance(extent, int) for extent in self.extents):
            return constant(np.asarray(self.extents).reshape(self.shape), self.dtype)
        parts = [_counted(extent, self.dtype) for extent in self.extents]
        return parts[0] if self.scalar else reshape(op.stack(parts, axis=0), self.shape)


def _counted(extent: Any, dtype: str) -> Expr:
    if isinstance(extent, int):
        return constant(extent, dtype)
    return cast(op.sum(full(1, (extent,), "int32"), axis=(0,)), dtype)


class Items:
    """A list of tensors of one type, some of which may not be there yet; `stacked` where it came as one tensor."""

    def __init__(self, items: Sequence[Expr | None], dtype: str, shape: tuple[int, ...] | None) -> None:
        self.items = list(items)
        self.dtype = dtype
        self.shape = shape


class Rows:
    """A list of `count` tensors of one shape, `count` being symbolic or the positions written counted at run time.

    `data` has them as the rows of one tensor; None where none was written yet.
    """

    def __init__(self, data: Expr | None, count: Any, dtype: str, shape: tuple[int, ...] | None) -> None:
        self.data = data
        self.count = count
        self.dtype = dtype
        self.shape = shape


class Blocked:
    """Data that SpaceToBatchND has cut into blocks of the batch, before anything is computed of it.

    A convolution between SpaceToBatchND and BatchToSpaceND is a dilated one of the data itself: `steps` are what is to
    be done with it, `axes` its blocked axes by then. `plain` computes it as the file says, for any other operator.
    """

    def __init__(
        self, data: Expr, axes: Sequence[int], blocks: Sequence[int], pads: Sequence[tuple[Any, Any]],
        plain: Callable[[], Expr], steps: Sequence[Callable[[Expr], Expr]] = (),
    ) -> None:  # fmt: skip
        self.data = data
        self.axes = tuple(axes)
        self.blocks = tuple(blocks)
        self.pads = tuple(pads)
        self.plain = plain
        self.steps = tuple(steps)

    def then(self, step: Callable[[Expr], Expr], plain: Callable[[Expr], Expr], axes: Sequence[int]) -> Blocked:
        """The value after one more operator: `step` on the data itself, `plain` on blocks."""
        return Blocked(self.data, axes, self.blocks, self.pads, lambda: plain(self.plain()), (*self.steps, step))

    def expression(self) -> Expr:
        """The blocks."""
        return self.plain()


class Handle:
    """A variable, by the name of its node; a table, by its own."""

    def __init__(self, name: str) -> None:
        self.name = name


class Dead:
    """The value of a branch that is not taken."""


DEAD = Dead()


def expression(value: Any) -> Any:
    """A tensor of what may be a shape, or data in blocks."""
    return value.expression() if isinstance(value, Dims | Blocked) else value


def numbers_of(value: Any) -> np.ndarray[Any, Any] | None:
    """The numbers of a shape or of a constant of whole numbers, of any rank; None for anything else."""
    if isinstance(value, Dims):
        return value.array()
    known = isinstance(value, Constant) and value.data.dtype.kind in "iu"
    return value.data.astype(object) if known else None


def dims_of(value: Any) -> tuple[Any, ...] | None:
    """The numbers of a shape or of a constant vector of whole numbers; None for anything else."""
    if isinstance(value, Dims):
        return value.extents if len(value.shape) < 2 else None
    if isinstance(value, Constant) and value.data.dtype.kind in "iu" and value.data.ndim <= 1:
        return tuple(int(number) for number in value.data.reshape(-1))
    return None
