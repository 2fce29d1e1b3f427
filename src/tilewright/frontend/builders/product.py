"""Matrix products and Einstein sums of any rank, as products that have kernels."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

from tilewright.errors import ModelError
from tilewright.frontend.idioms import (
    as_matrix,
    broadcast_to,
    flatten,
    product,
    rank_of,
    reshape,
    shape_of,
    slice_axis,
    swap_axes,
    transpose,
)
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def matmul(left: Expr, right: Expr, transpose_left: bool = False, transpose_right: bool = False) -> Expr:
    """The product as NumPy defines it: vectors, matrices, and batches of them with broadcasting.

    Of operands to be transposed the last two axes are exchanged; vectors stay.
    """
    left = swap_axes(left) if transpose_left and rank_of(left) > 1 else left
    right = swap_axes(right) if transpose_right and rank_of(right) > 1 else right
    a, b = shape_of(left), shape_of(right)
    if len(a) == 1:
        made = matmul(reshape(left, (1, *a)), right)
        return op.squeeze(made, axis=(rank_of(made) - 2,)) if rank_of(made) > 1 else op.squeeze(made, axis=(0,))
    if len(b) == 1:
        made = matmul(left, reshape(right, (*b, 1)))
        return op.squeeze(made, axis=(rank_of(made) - 1,))
    if len(b) == 2:
        return op.nn.dense(left, transpose(right, (1, 0)), units=b[1])
    batch = broadcast_shape(a[:-2], b[:-2])
    flat = [
        reshape(broadcast_to(value, (*batch, *shape[-2:])), (product(batch), *shape[-2:]))
        for value, shape in ((left, a), (right, b))
    ]
    made = op.nn.batch_matmul(flat[0], flat[1], transpose_a=False, transpose_b=False)
    return reshape(made, (*batch, a[-2], b[-1]))


def linear(x: Expr, weight: Expr, bias: Expr | None = None, axis: int = -1) -> Expr:
    """The axes of `x` from `axis` on, as one, times the rows of `weight` [units, …], plus a number a unit."""
    made = op.nn.dense(as_matrix(x, axis), flatten(weight))
    made = made if bias is None else op.nn.bias_add(made, bias, axis=1)
    return reshape(made, (*shape_of(x)[:axis], shape_of(weight)[0]))


def kron(left: Expr, right: Expr) -> Expr:
    """The Kronecker product: each element of the one times all of the other."""
    rank = max(rank_of(left), rank_of(right))
    a, b = ((*[1] * (rank - rank_of(one)), *shape_of(one)) for one in (left, right))
    wide = reshape(left, [part for extent in a for part in (extent, 1)])
    return reshape(wide * reshape(right, [part for extent in b for part in (1, extent)]), [m * n for m, n in zip(a, b)])


def broadcast_shape(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """The shape that all of `shapes` broadcast to. Raises `ModelError` where there is none."""
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[Any] = []
    for axis in range(-rank, 0):
        extents = [shape[axis] for shape in shapes if len(shape) >= -axis]
        wide = [extent for extent in extents if not (isinstance(extent, int) and extent == 1)]
        numbers = {extent for extent in wide if isinstance(extent, int)}
        if len(numbers) > 1:
            raise ModelError(f"shapes {', '.join(str(list(shape)) for shape in shapes)} do not broadcast")
        result.append(next(iter(numbers)) if numbers else wide[0] if wide else 1)
    return tuple(result)


def einsum(equation: str, operands: Sequence[Expr]) -> Expr:
    """The sum of products that `equation` describes. Raises `ModelError` where it does not fit the operands."""
    operands = list(operands)
    terms, result = _parse(equation.replace(" ", ""), operands)
    for position, (term, operand) in enumerate(zip(terms, operands)):
        if len(term) != rank_of(operand):
            raise ModelError(f"the term {term!r} of {equation!r} does not fit the shape {list(shape_of(operand))}")
        terms[position], operands[position] = _diagonal(term, operand)
    term, value = terms[0], operands[0]
    for index in range(1, len(operands)):
        needed = set(result).union(*terms[index + 1 :])
        term, value = _product(term, value, terms[index], operands[index], needed)
    term, value = _sum_out(term, value, set(result))
    if not set(result) <= set(term):
        raise ModelError(f"the equation {equation!r} has labels in its result that no operand has")
    return transpose(value, [term.index(label) for label in result])


def _parse(equation: str, operands: list[Expr]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, an ellipsis replaced by labels that the equation does not use."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ModelError(f"the equation {equation!r} has {len(terms)} terms for {len(operands)} operands")
    spare = [letter for letter in string.ascii_letters if letter not in equation]
    widths = [rank_of(operand) - len(term.replace("...", "")) for term, operand in zip(terms, operands)]
    widest = max((width for term, width in zip(terms, widths) if "..." in term), default=0)
    dots = "".join(spare[:widest])
    terms = [term.replace("...", dots[widest - width :]) for term, width in zip(terms, widths)]
    if arrow:
        return terms, right.replace("...", dots)
    letters = "".join(terms)
    once = sorted(letter for letter in set(letters) if letters.count(letter) == 1 and letter not in dots)
    return terms, dots + "".join(once)


def _diagonal(term: str, value: Expr) -> tuple[str, Expr]:
    """Merge axes of one label: of both axes flattened into one, every (extent + 1)-th element lies on the diagonal."""
    for label in dict.fromkeys(term):
        while term.count(label) > 1:
            first = term.index(label)
            second = term.index(label, first + 1)
            order = [axis for axis in range(len(term)) if axis not in (first, second)]
            value = diagonal(transpose(value, [*order, first, second]))
            term = "".join(term[axis] for axis in order) + label
    return term, value


def diagonal(value: Expr, offset: int = 0) -> Expr:
    """The diagonal of the last two axes that lies `offset` above the main one."""
    *lead, rows, columns = shape_of(value)
    # of squares, whose extent may be symbolic, the main diagonal is as long as they are
    square = rows is columns and not offset
    count = rows if square else max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    first, step = max(offset, -offset * columns), columns + 1
    flat = reshape(value, (*lead, rows * columns))
    return slice_axis(flat, len(lead), first, first + count * step - columns, step)


def _sum_out(term: str, value: Expr, keep: set[str]) -> tuple[str, Expr]:
    """Sum over the axes whose label is not in `keep`."""
    dropped = tuple(axis for axis, label in enumerate(term) if label not in keep)
    if not dropped:
        return term, value
    return "".join(label for label in term if label in keep), op.sum(value, axis=dropped, keepdims=False)


def _product(term: str, value: Expr, other: str, factor: Expr, needed: set[str]) -> tuple[str, Expr]:
    """The product of two operands, summed over the labels that nothing later needs."""
    term, value = _sum_out(term, value, needed | set(other))
    other, factor = _sum_out(other, factor, needed | set(term))
    sizes = dict(zip(other, shape_of(factor)))
    for label, extent in zip(term, shape_of(value)):
        sizes[label] = broadcast_shape((extent,), (sizes.get(label, 1),))[0]
    shared = [label for label in term if label in other]
    batch = [label for label in shared if label in needed]
    inner = [label for label in shared if label not in needed]
    rows = [label for label in term if label not in shared]
    columns = [label for label in other if label not in shared]

    def arrange(labels: str, operand: Expr, groups: list[list[str]]) -> Expr:
        order = [label for group in groups for label in group]
        moved = broadcast_to(transpose(operand, [labels.index(label) for label in order]), [sizes[i] for i in order])
        return reshape(moved, [math.prod(sizes[label] for label in group) for group in groups])

    labels = [*batch, *rows, *columns]
    if batch:
        left, right = arrange(term, value, [batch, rows, inner]), arrange(other, factor, [batch, inner, columns])
    else:
        left, right = arrange(term, value, [rows, inner]), arrange(other, factor, [inner, columns])
    return "".join(labels), reshape(matmul(left, right), [sizes[label] for label in labels])
