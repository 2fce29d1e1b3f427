"""Einstein summation through transpositions, reshapes and batched matrix products."""

from __future__ import annotations

import math
import string

from tilewright.errors import ModelError
from tilewright.frontend.onnx.build import reshape, transpose
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def einsum(node: OnnxNode, equation: str, operands: list[Expr]) -> Expr:
    """The sum of products that `equation` describes."""
    terms, result = _parse(node, equation.replace(" ", ""), operands)
    for position, (term, operand) in enumerate(zip(terms, operands)):
        if len(term) != node.rank(operand):
            raise ModelError(f"{node.label}: the term {term!r} does not fit the shape {list(node.shape(operand))}")
        terms[position], operands[position] = _diagonal(node, term, operand)
    term, value = terms[0], operands[0]
    for index in range(1, len(operands)):
        needed = set(result).union(*terms[index + 1 :])
        term, value = _product(node, term, value, terms[index], operands[index], needed)
    term, value = _sum_out(term, value, set(result))
    return transpose(value, [term.index(label) for label in result])


def _parse(node: OnnxNode, equation: str, operands: list[Expr]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, an ellipsis replaced by labels that the equation does not use."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ModelError(f"{node.label}: the equation {equation!r} has {len(terms)} terms for {len(operands)} inputs")
    spare = [letter for letter in string.ascii_letters if letter not in equation]
    widths = [node.rank(operand) - len(term.replace("...", "")) for term, operand in zip(terms, operands)]
    widest = max((width for term, width in zip(terms, widths) if "..." in term), default=0)
    dots = "".join(spare[:widest])
    terms = [term.replace("...", dots[widest - width :]) for term, width in zip(terms, widths)]
    if arrow:
        return terms, right.replace("...", dots)
    letters = "".join(terms)
    once = sorted(letter for letter in set(letters) if letters.count(letter) == 1 and letter not in dots)
    return terms, dots + "".join(once)


def _diagonal(node: OnnxNode, term: str, value: Expr) -> tuple[str, Expr]:
    """Merge axes of one label: of both axes flattened into one, every (extent + 1)-th element lies on the diagonal."""
    for label in dict.fromkeys(term):
        while term.count(label) > 1:
            first = term.index(label)
            second = term.index(label, first + 1)
            order = [axis for axis in range(len(term)) if axis not in (first, second)]
            value = transpose(value, [*order, first, second])
            *lead, extent, _ = node.shape(value)
            flat = reshape(node, value, (*lead, extent * extent))
            value = op.strided_slice(flat, begin=(0,), end=(extent * extent,), strides=(extent + 1,), axes=(len(lead),))
            term = "".join(term[axis] for axis in order) + label
    return term, value


def _sum_out(term: str, value: Expr, keep: set[str]) -> tuple[str, Expr]:
    """Sum over the axes whose label is not in `keep`."""
    dropped = tuple(axis for axis, label in enumerate(term) if label not in keep)
    if not dropped:
        return term, value
    return "".join(label for label in term if label in keep), op.sum(value, axis=dropped, keepdims=False)


def _product(node: OnnxNode, term: str, value: Expr, other: str, factor: Expr, needed: set[str]) -> tuple[str, Expr]:
    """The product of two operands, summed over the labels that nothing later needs."""
    term, value = _sum_out(term, value, needed | set(other))
    other, factor = _sum_out(other, factor, needed | set(term))
    sizes = dict(zip(other, node.shape(factor)))
    for label, extent in zip(term, node.shape(value)):
        sizes[label] = max(extent, sizes.get(label, 1))
    shared = [label for label in term if label in other]
    batch = [label for label in shared if label in needed]
    inner = [label for label in shared if label not in needed]
    rows = [label for label in term if label not in shared]
    columns = [label for label in other if label not in shared]

    def arrange(labels: str, operand: Expr, groups: list[list[str]]) -> Expr:
        order = [label for group in groups for label in group]
        moved = transpose(operand, [labels.index(label) for label in order])
        full = [sizes[label] for label in order]
        if node.shape(moved) != tuple(full):
            moved = op.broadcast_to(moved, shape=tuple(full))
        return reshape(node, moved, [math.prod(sizes[label] for label in group) for group in groups])

    left = arrange(term, value, [batch, rows, inner])
    right = arrange(other, factor, [batch, inner, columns])
    product = op.nn.batch_matmul(left, right, transpose_a=False, transpose_b=False)
    labels = [*batch, *rows, *columns]
    return "".join(labels), reshape(node, product, [sizes[label] for label in labels])
