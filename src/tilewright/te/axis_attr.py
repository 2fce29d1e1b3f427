"""What primitives note of the loops of a stage: how one runs, and what is read ahead of it."""

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
    """How the loop of one leaf axis is to run."""

    kind: ForKind = ForKind.SERIAL
    thread: IterVar | None = None
    pragmas: dict[str, Any] = field(default_factory=dict)
    intrin: TensorIntrin | None = None

    @property
    def iter_type(self) -> Any:
        """How the loop runs, as one of the marks of `IterVar`: `IterVar.Unrolled`, `IterVar.ThreadIndex`, …

        A serial loop without a mark is `ForKind.SERIAL`.
        """
        if self.intrin is not None:
            return IterVar.Tensorized
        return IterVar.ThreadIndex if self.thread is not None else self.kind

    @property
    def tensor_intrin(self) -> TensorIntrin | None:
        """What replaces the loop and those inside."""
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
    """What has loops of which `attrs` says how they run."""

    __slots__ = ()
    attrs: dict[IterVar, AxisAttr]

    @property
    def iter_var_attrs(self) -> dict[IterVar, AxisAttr]:
        """How the loops run that a primitive marked, by axis."""
        return dict(self.attrs)


@dataclass(frozen=True, eq=False)
class Prefetch:
    """What is read of `tensor` `offset` iterations ahead on `axis`, or parts ahead: see `Stage.prefetch`."""

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
