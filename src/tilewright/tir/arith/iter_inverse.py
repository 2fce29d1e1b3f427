"""The inverse of an affine iterator map: loop variables from the indices they make."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.arith.iter_map import IterMapLevel, IterMark, IterSplitExpr, IterSumExpr, check_splits, marks_of
from tilewright.tir.expr import Expr, Var


def inverse_affine_iter_map(indices: Sequence[IterSumExpr], outputs: Sequence[Expr]) -> dict[Var, Expr]:
    """Each loop variable as an expression over `outputs`, the values of the indices.

    For `[i // 4, i % 4]` and outputs (a, b): i = a * 4 + b. `indices` are those of `detect_iter_map` at the level
    BIJECTIVE. Raises ValueError where they are not one-to-one, or where an output is missing.
    """
    if len(indices) != len(outputs):
        raise ValueError(f"inverse_affine_iter_map: {len(indices)} indices and {len(outputs)} outputs")
    if any(len(index.args) > 1 for index in indices):
        raise ValueError("inverse_affine_iter_map: an index is a sum that was not fused; detect it as BIJECTIVE first")
    check_splits(indices, {}, IterMapLevel.BIJECTIVE)
    values: dict[IterMark, Expr] = {}
    for index, output in zip(indices, outputs, strict=True):
        for split in index.args:
            _add(values, split, op.floordiv(output - index.base, split.scale))
    simplify, variables = Analyzer().simplify, {}
    for mark in marks_of(indices):
        if isinstance(mark.source, Var):
            variables[mark.source] = simplify(op.cast(mark.source.dtype, values[mark]) + mark.first)
            continue
        for position, part in enumerate(mark.source.args):
            digits = op.floordiv(values[mark], part.scale)
            _add(values, part, digits if position == 0 else op.floormod(digits, part.extent))
    return variables


def _add(values: dict[IterMark, Expr], split: IterSplitExpr, digits: Expr) -> None:
    """Put the digits of a split at their position in its iterator's value."""
    placed = digits * split.lower_factor
    values[split.source] = values[split.source] + placed if split.source in values else placed
