"""The derivation of a stage's loops from its axes: splits, fusions and loops of none, in the order they were made."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.te.itervar import IterVar
from tilewright.tir.expr import Expr


@dataclass(frozen=True, eq=False)
class Split:
    """parent = outer * factor + inner; one of `factor` and `nparts` is given."""

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: Expr | None
    nparts: Expr | None


@dataclass(frozen=True, eq=False)
class Fuse:
    """fused = outer * extent(inner) + inner."""

    outer: IterVar
    inner: IterVar
    fused: IterVar


@dataclass(frozen=True, eq=False)
class Singleton:
    """A loop of one iteration, of no axis: what the fusion of no loops is."""

    axis: IterVar


Relation = Split | Fuse | Singleton
