"""What primitives note of the loops of a stage: how one runs, and what is read ahead of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.te.itervar import IterVar
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
