"""How a computation walks through the memory of what it reads: the facts that choose which loop becomes vector lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilewright import te
from tilewright.te.operation import ComputeOp
from tilewright.te.rewrite import BodyRewriter
from tilewright.tir import const
from tilewright.tir.expr import Expr, IntImm, ProducerLoad, Reduce, Var
from tilewright.topi.schedule.cpu.common import shape_of


def reads_through(out: te.Tensor, stop: Callable[[te.Tensor], bool]) -> list[ProducerLoad]:
    """What `out` reads of inputs and of tensors where `stop` holds, indexed by its own axes, seen through all others.

    before `B[i] = A[i + 1]; out[j] = B[2 * j]` · `reads_through(out, never)` · after `[A[2 * j + 1]]`
    """
    found: dict[ProducerLoad, None] = {}
    expanded: dict[ProducerLoad, Expr] = {}

    def read(tensor: te.Tensor, indices: tuple[Expr, ...]) -> Expr:
        load = ProducerLoad(tensor, indices)
        if not isinstance(tensor.op, ComputeOp) or stop(tensor):
            found[load] = None
            return load
        if load not in expanded:
            variables = {iv.var: index for iv, index in zip(tensor.op.axis, indices, strict=True)}
            expanded[load] = BodyRewriter(variables, read)(tensor.op.body[tensor.value_index])
        return expanded[load]

    rewriter = BodyRewriter({}, read)
    for part in _parts(out):
        rewriter(part)
    return list(found)


def _parts(out: te.Tensor) -> list[Expr]:
    body = out.op.body[out.value_index]
    return [*body.source, body.condition] if isinstance(body, Reduce) else [body]


def stride(load: ProducerLoad, axis: te.IterVar, axes: Sequence[te.IterVar]) -> int | None:
    """How many elements apart `load` reads at the first two positions of `axis`, the other `axes` at 0.

    None where that depends on data.
    """
    origin: dict[Var, Expr] = {iv.var: const(0, iv.var.dtype) for iv in axes}
    first = _flat(load, origin)
    second = _flat(load, {**origin, axis.var: const(1, axis.var.dtype)})
    return None if first is None or second is None else second - first


def _flat(load: ProducerLoad, values: Mapping[Var, Expr]) -> int | None:
    rewriter, flat = BodyRewriter(values), 0
    for index, size in zip(load.indices, shape_of(load.producer), strict=True):
        value = rewriter(index)
        if not isinstance(value, IntImm):
            return None
        flat = flat * size + value.value
    return flat


def row_axes(reduction: te.Tensor) -> list[te.IterVar]:
    """The reduction axes that together run along neighbours in memory, outermost first; none if no such axis exists."""
    axes = [*reduction.op.reduce_axis, *reduction.op.axis]
    for load in producer_reads(reduction):
        steps = {iv: stride(load, iv, axes) for iv in reduction.op.reduce_axis if _extent(iv) > 1}
        run, expected = [], 1
        for axis in reversed(reduction.op.reduce_axis):
            if steps.get(axis) == expected:
                run.insert(0, axis)
                expected *= _extent(axis)
        if run:
            return run
    return []


def producer_reads(tensor: te.Tensor) -> list[ProducerLoad]:
    """The reads of inputs and reductions, those of as many dimensions as the tensor reads at most first."""
    loads = reads_through(tensor, lambda t: bool(getattr(t.op, "reduce_axis", ())))
    return sorted(loads, key=lambda load: -len(load.indices))


def _extent(axis: te.IterVar) -> int:
    assert axis.dom is not None
    return axis.dom.extent.value if isinstance(axis.dom.extent, IntImm) else 1024


