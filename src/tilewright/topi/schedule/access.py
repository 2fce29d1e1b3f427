"""Memory access of a computation's reads: which loop should become vector lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from tilewright import te
from tilewright.support.recursion import nested
from tilewright.te.operation import ComputeOp
from tilewright.te.rewrite import BodyRewriter
from tilewright.tir import const
from tilewright.tir.expr import Add, Expr, IntImm, Mul, ProducerLoad, Reduce, Sub, Var
from tilewright.tir.visitor import children
from tilewright.topi.schedule.stages import NARROWEST, extent_of, is_reduction, shape_of


def reads_through(out: te.Tensor, stop: Callable[[te.Tensor], bool]) -> list[ProducerLoad]:
    """The loads of inputs and of tensors where `stop` holds that `out` reads, indexed by its own axes, seen through all
    others.

    before `B[i] = A[i + 1]; out[j] = B[2 * j]` · `reads_through(out, never)` · after `[A[2 * j + 1]]`
    """
    return see_through(out, stop)[1]


def see_through(out: te.Tensor, stop: Callable[[te.Tensor], bool]) -> tuple[list[Expr], list[ProducerLoad]]:
    """The expressions of `out` with all tensors put in but inputs and those where `stop` holds; and what they read."""
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
    return [rewriter(part) for part in _parts(out)], list(found)


def _parts(out: te.Tensor) -> list[Expr]:
    assert isinstance(out.op, ComputeOp)
    body = out.op.body[out.value_index]
    return [*body.source, body.condition] if isinstance(body, Reduce) else [body]


def stride(load: ProducerLoad, axis: te.IterVar, axes: Sequence[te.IterVar], position: int = 1) -> int | None:
    """The distance in elements between the reads of `load` at the first and at another `position` of `axis`, the other
    `axes` at 0.

    None where that depends on data.
    """
    origin: dict[Var, Expr] = {iv.var: const(0, iv.var.dtype) for iv in axes}
    first = _flat(load, origin)
    second = _flat(load, {**origin, axis.var: const(position, axis.var.dtype)})
    return None if first is None or second is None else second - first


def _flat(load: ProducerLoad, values: Mapping[Var, Expr]) -> int | None:
    rewriter, flat = BodyRewriter(values), 0
    for index, size in zip(load.indices, shape_of(load.producer), strict=True):
        value = rewriter(index)
        if not isinstance(value, IntImm):
            return None
        flat = flat * size + value.value
    return flat


def unbroken_lanes(out: te.Tensor, lanes: int) -> int:
    """`lanes`, halved until no read of `out` jumps within that many elements of the last axis (to 4 at least)."""
    axes = list(out.op.axis)
    bodies, loads = see_through(out, lambda _: False)
    if axes[-1].var not in _bent_variables(bodies):
        return lanes
    for load in loads:
        if stride(load, axes[-1], axes) == 1:
            while lanes > NARROWEST and lanes % 2 == 0 and stride(load, axes[-1], axes, lanes - 1) != lanes - 1:
                lanes //= 2
    return lanes


def flattened_axes(out: te.Tensor, last: int = -1) -> int:
    """The number of axes of the injective `out` that end with axis `last` and can run as one loop with nothing lost.

    They must stand in nothing but indices of reads, and move through each input as through one row.
    """
    axes, shape = list(out.op.axis), shape_of(out)
    end = last % len(axes) + 1
    bodies, loads = see_through(out, lambda _: False)
    steps = [[stride(load, iv, axes) for iv in axes] for load in loads]
    bent = _bent_variables(bodies)
    count = 1
    while count < end:
        d = end - count
        pair = (axes[d - 1].var, axes[d].var)
        if not bent.isdisjoint(pair):
            break
        if any(s[d] is None or s[d - 1] != s[d] * shape[d] for s in steps if shape[d - 1] > 1):  # type: ignore[operator]
            break
        count += 1
    return count


def _bent_variables(bodies: list[Expr]) -> set[Var]:
    """Variables that stand anywhere but in the sums and products that are indices of reads."""
    bent: set[Var] = set()
    seen: set[tuple[Expr, bool]] = set()

    @nested
    def visit(x: Expr, straight: bool) -> None:
        if (x, straight) in seen:
            return
        seen.add((x, straight))
        if isinstance(x, Var):
            if not straight:
                bent.add(x)
        elif isinstance(x, ProducerLoad):
            for index in x.indices:
                visit(index, True)
        else:
            for child in children(x):
                visit(child, straight and isinstance(x, (Add, Sub, Mul)))

    for body in bodies:
        visit(body, False)
    return bent


def row_axes(reduction: te.Tensor) -> list[te.IterVar]:
    """The reduction axes that together run along neighbours in memory, outermost first; none if no such axis exists."""
    axes = [*reduction.op.reduce_axis, *reduction.op.axis]
    for load in producer_reads(reduction):
        steps = {iv: stride(load, iv, axes) for iv in reduction.op.reduce_axis if extent_of(iv) > 1}
        run: list[te.IterVar] = []
        expected = 1
        for axis in reversed(reduction.op.reduce_axis):
            if steps.get(axis) == expected:
                run.insert(0, axis)
                expected *= extent_of(axis)
        if run:
            return run
    return []


def producer_reads(tensor: te.Tensor) -> list[ProducerLoad]:
    """The reads of inputs and reductions, those of as many dimensions as the tensor reads at most first."""
    loads = reads_through(tensor, lambda t: bool(getattr(t.op, "reduce_axis", ())))
    return sorted(loads, key=lambda load: -len(load.indices))


def element_by_element(out: te.Tensor, reductions: Sequence[te.Tensor]) -> bool:
    """True if each element of `out` needs one element of each reduction, and no two elements share one."""
    size = math.prod(shape_of(out))
    if any(math.prod(shape_of(reduction)) != size for reduction in reductions):
        return False
    return all(reduction.op is out.op or _reads_plainly(out, reduction) for reduction in reductions)


def _reads_plainly(reader: te.Tensor, reduction: te.Tensor) -> bool:
    loads = [load for load in reads_through(reader, is_reduction) if load.producer.op is reduction.op]
    return all(isinstance(index, Var | IntImm) for load in loads for index in load.indices)
