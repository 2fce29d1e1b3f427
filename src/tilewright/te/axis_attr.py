"""Annotations of a stage's loops by primitives: the kind of each loop, and its prefetches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.te.itervar import IterVar
from tilewright.te.operation import Operation
from tilewright.te.tensor import Tensor
from tilewright.tir.expr import StringImm
from tilewright.tir.stmt import ForKind

if TYPE_CHECKING:
    from tilewright.te.tensor_intrin import TensorIntrin


@dataclass
class AxisAttr:
    """Annotations of the loop of one leaf axis."""

    kind: ForKind = ForKind.SERIAL
    thread: IterVar | None = None
    pragmas: dict[str, Any] = field(default_factory=dict)
    intrin: TensorIntrin | None = None

    @property
    def iter_type(self) -> Any:
        """The kind of the loop, as one of the marks of `IterVar`: `IterVar.Unrolled`, `IterVar.ThreadIndex`, …

        A serial loop without a mark is `ForKind.SERIAL`.
        """
        if self.intrin is not None:
            return IterVar.Tensorized
        return IterVar.ThreadIndex if self.thread is not None else self.kind

    @property
    def tensor_intrin(self) -> TensorIntrin | None:
        """The intrinsic that replaces the loop and those inside."""
        return self.intrin

    @property
    def bind_thread(self) -> IterVar | None:
        """The hardware axis that the loop is bound to."""
        return self.thread

    @property
    def pragma_keys(self) -> list[StringImm]:
        """The names of the pragmas, in the order given."""
        return [StringImm(key) for key in self.pragmas]

    @property
    def pragma_values(self) -> list[Any]:
        """The values of the pragmas, in that order."""
        return list(self.pragmas.values())


class HasAxisAttrs:
    """An object with loops annotated by `attrs`."""

    __slots__ = ()
    attrs: dict[IterVar, AxisAttr]

    @property
    def iter_var_attrs(self) -> dict[IterVar, AxisAttr]:
        """The annotations of the loops that a primitive marked, by axis."""
        return dict(self.attrs)


@dataclass(frozen=True, eq=False)
class Prefetch:
    """A prefetch of `tensor` `offset` iterations ahead on `axis`, or parts ahead: see `Stage.prefetch`."""

    tensor: Tensor
    axis: IterVar
    offset: int
    spread: bool = False


def first_loops(op: Operation) -> tuple[list[IterVar], dict[IterVar, AxisAttr]]:
    """The loops of an operation before any primitive, and how they run.

    Where it calls an intrinsic, its own loops stand around those that the intrinsic replaces.
    """
    intrin, outer, outer_reduce = op.attrs.get("intrin", (None, 0, 0))
    if intrin is None:
        return [*op.axis, *op.reduce_axis], {}
    inside = [*op.axis[outer:], *op.reduce_axis[outer_reduce:]]
    loops = [*op.axis[:outer], *op.reduce_axis[:outer_reduce], *inside]
    return loops, {inside[0]: AxisAttr(intrin=intrin)}
