"""Values beside tensors while a graph is imported: shapes with open extents, lists of tensors, dead branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend.idioms import cast, constant, full
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


class Dims:
    """A vector of whole numbers, or a single one (`scalar`), of which some are open extents."""

    def __init__(self, extents: Sequence[Any], dtype: str = "int32", scalar: bool = False) -> None:
        self.extents = tuple(extents)
        self.dtype = dtype
        self.scalar = scalar

    def expression(self) -> Expr:
        """The same as a tensor: an open extent is counted by a sum of as many ones."""
        if all(isinstance(extent, int) for extent in self.extents):
            data = np.asarray(self.extents[0] if self.scalar else self.extents)
            return constant(data, self.dtype)
        parts = [_counted(extent, self.dtype) for extent in self.extents]
        return parts[0] if self.scalar else op.stack(parts, axis=0)


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
    """A list of `count` tensors of one shape, `count` being symbolic or the places written counted at run time.

    `data` has them as the rows of one tensor; None where none was written yet.
    """

    def __init__(self, data: Expr | None, count: Any, dtype: str, shape: tuple[int, ...] | None) -> None:
        self.data = data
        self.count = count
        self.dtype = dtype
        self.shape = shape


class Handle:
    """A variable, by the name of its node; a table, by its own."""

    def __init__(self, name: str) -> None:
        self.name = name


class Dead:
    """The value of a branch that is not taken."""


DEAD = Dead()


def expression(value: Any) -> Any:
    """A tensor of what may be a shape."""
    return value.expression() if isinstance(value, Dims) else value


def dims_of(value: Any) -> tuple[Any, ...] | None:
    """The numbers of a shape or of a constant of whole numbers; None for anything else."""
    if isinstance(value, Dims):
        return value.extents
    if isinstance(value, Constant) and value.data.dtype.kind in "iu" and value.data.ndim <= 1:
        return tuple(int(number) for number in value.data.reshape(-1))
    return None
