"""Tensor intrinsics called within `te.compute`, on regions of tensors: `gemv(A[i, k, 0:16, 0:16], B[j, 0:16])`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.errors import ScheduleError
from tilewright.te.itervar import IterVar, as_index
from tilewright.te.operation import IntrinsicCall
from tilewright.te.tensor import Tensor, TensorRegion
from tilewright.tir import op as tir_op
from tilewright.tir.expr import Expr, ProducerLoad, Reduce, Var
from tilewright.tir.operators import ExprOp
from tilewright.tir.visitor import rewrite_expr

if TYPE_CHECKING:
    from tilewright.te.tensor_intrin import TensorIntrin


class TensorCall(IntrinsicCall):
    """`intrin` on `regions`, one for each of its inputs, summed up over `reduce_axis` by its own reduction."""

    def __init__(self, intrin: TensorIntrin, regions: Sequence[Any], reduce_axis: Any) -> None:
        self.intrin = intrin
        given = reduce_axis if isinstance(reduce_axis, (list, tuple)) else [reduce_axis]
        self.reduce_axis: tuple[IterVar, ...] = tuple(axis for axis in given if axis is not None)
        inputs = intrin.op.input_tensors
        scalars = [x for x in regions if isinstance(x, (ExprOp, int, float)) and not isinstance(x, ProducerLoad)]
        regions = [x for x in regions if not any(x is one for one in scalars)]
        if len(regions) != len(inputs) or len(scalars) != len(intrin.scalars):
            raise ScheduleError(
                f"{intrin!r} takes {len(inputs)} regions of tensors and {len(intrin.scalars)} numbers; "
                f"{len(regions)} and {len(scalars)} are given"
            )
        self.scalars: dict[Expr, Expr] = {
            theirs: tir_op.cast(theirs.dtype, mine) for theirs, mine in zip(intrin.scalars, scalars, strict=True)
        }
        if self.reduce_axis and not intrin.op.is_reduction:
            raise ScheduleError(f"{intrin!r} does not reduce, so it has no reduce_axis")
        self.regions = {theirs: _region(mine, theirs, intrin) for theirs, mine in zip(inputs, regions, strict=True)}

    def body(self, axis: Sequence[IterVar], name: str) -> list[Expr]:
        """The elements that the intrinsic makes, over `axis` for its own axes."""
        theirs = self.intrin.op.axis
        if len(axis) != len(theirs) or any(a.dom.extent is not b.dom.extent for a, b in zip(axis, theirs)):  # type: ignore[union-attr]
            sizes = ", ".join(repr(iv.dom.extent) for iv in theirs if iv.dom is not None)
            raise ScheduleError(f"{name}: its last dimensions must be those that {self.intrin!r} makes: {sizes}")
        fresh = [IterVar(iv.dom, Var(iv.name, iv.var.dtype), iv.iter_type) for iv in self.intrin.op.reduce_axis]
        values: dict[Expr, Expr] = {iv.var: new.var for iv, new in zip(theirs, axis, strict=True)}
        values |= {iv.var: new.var for iv, new in zip(self.intrin.op.reduce_axis, fresh, strict=True)}
        memo: dict[Expr, Expr] = {**values, **self.scalars}

        def read(load: ProducerLoad) -> Expr:
            return self.regions[load.producer].element(load.indices)

        def own(expr: Expr) -> Expr:
            return rewrite_expr(expr, {ProducerLoad: read}, memo)

        made: list[Expr] = []
        for part in self.intrin.op.body:
            if isinstance(part, Reduce):
                source = [own(x) for x in part.source]
                axes = (*self.reduce_axis, *fresh)
                starts = [own(x) for x in part.init]
                made.append(Reduce(part.combiner, source, axes, own(part.condition), part.value_index, starts))
            else:
                made.append(own(part))
        return made


def _region(given: Any, theirs: Tensor, intrin: TensorIntrin) -> TensorRegion:
    """The argument for an input of the intrinsic, as a region of its size."""
    region = given.as_region() if hasattr(given, "as_region") else given
    if not isinstance(region, TensorRegion):
        raise ScheduleError(f"{intrin!r}: a region such as A[i, 0:16] is needed for {theirs.name}, not {given!r}")
    if [tir_op.as_const(size) for size in region.shape] != [tir_op.as_const(as_index(s)) for s in theirs.shape]:
        raise ScheduleError(f"{intrin!r}: {theirs.name} is {list(theirs.shape)}, the region given {region.shape}")
    return region
