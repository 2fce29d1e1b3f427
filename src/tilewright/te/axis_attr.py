"""What primitives note of the loops of a stage: how one runs, and what is read ahead of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.te.itervar import IterVar
from tilewright.te.operation import Operation
from tilewright.te.tensor import Tensor
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
