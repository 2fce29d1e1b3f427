"""The axes of an operation and the loops they became: what each is in terms of the others.

`rfactor` makes the loops of a reduction axes of a new operation, `cache_write` those of the data.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.te.bounds import divides, split_extents
from tilewright.te.itervar import IterType, IterVar
from tilewright.te.loop_relation import Relation, Singleton, Split
from tilewright.te.stage import Stage
from tilewright.tir.expr import Expr, IntImm, Var


def made_of(relation: Relation) -> IterVar:
    """One of the axes of a relation, which all are of one kind."""
    if isinstance(relation, Singleton):
        return relation.axis
    return relation.parent if isinstance(relation, Split) else relation.fused


def _roots(stage: Stage) -> list[IterVar]:
    return [*stage.op.axis, *stage.op.reduce_axis]


def axis_extents(stage: Stage, kind: IterType) -> dict[IterVar, Expr]:
    """The extents of all axes of one kind of a `te.compute`, those made by splits and fusions too."""
    roots = [iv for iv in _roots(stage) if iv.iter_type is kind]
    extents = {iv: iv.dom.extent for iv in roots if iv.dom is not None}
    for relation in stage.relations:
        if made_of(relation).iter_type is not kind:
            continue
        if isinstance(relation, Split):
            split_extents(relation, extents)
        elif isinstance(relation, Singleton):
            extents[relation.axis] = IntImm(relation.axis.var.dtype, 1)
        else:
            extents[relation.fused] = extents[relation.outer] * extents[relation.inner]
    return extents


def root_values(
    stage: Stage, extents: Mapping[IterVar, Expr], leaves: Mapping[IterVar, IterVar]
) -> tuple[dict[Var, Expr], list[Expr]]:
    """The axes of the operation as expressions of `leaves`, new ones that count from 0, and the condition of being in
    range.
    """
    found: dict[IterVar, Expr] = {old: new.var for old, new in leaves.items()}
    conditions: list[Expr] = []
    for relation in reversed(stage.relations):
        if isinstance(relation, Singleton) or relation.inner not in extents:
            continue
        step = extents[relation.inner]
        if isinstance(relation, Split):
            value = found[relation.outer] * step + found[relation.inner]
            found[relation.parent] = value
            whole = extents[relation.parent]
            if not divides(extents[relation.outer], step, whole):
                conditions.append(value < whole)
        else:
            found[relation.outer] = found[relation.fused] // step
            found[relation.inner] = found[relation.fused] % step
    roots = [iv for iv in _roots(stage) if iv in extents]
    return {iv.var: found[iv] + iv.dom.min for iv in roots if iv.dom is not None}, conditions


def leaf_values(stage: Stage, extents: Mapping[IterVar, Expr]) -> dict[IterVar, Expr]:
    """The loops as expressions of the axes of the operation, each counted from 0."""
    found: dict[IterVar, Expr] = {}
    for iv in _roots(stage):
        if iv in extents and iv.dom is not None:
            found[iv] = iv.var - iv.dom.min
    for relation in stage.relations:
        if isinstance(relation, Singleton):
            found[relation.axis] = IntImm(relation.axis.var.dtype, 0)
        elif relation.inner in extents:
            step = extents[relation.inner]
            if isinstance(relation, Split):
                value = found[relation.parent]
                found[relation.outer], found[relation.inner] = value // step, value % step
            else:
                found[relation.fused] = found[relation.outer] * step + found[relation.inner]
    return found
