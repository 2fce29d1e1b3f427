"""Checks in the type rules of operators on images."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.relay.ir.expr import Attrs
from tilewright.relay.ir.type import TensorType
from tilewright.relay.op.common import require, require_float


def one_of(attrs: Attrs, name: str, known: Sequence[str]) -> None:
    """The attribute `name` is one of `known`. Raises TypeMismatchError."""
    require(attrs[name] in known, f"{name}={attrs[name]!r}; known: {', '.join(known)}")


def images(type_: TensorType) -> None:
    """Floating point [N, C, H, W]. Raises TypeMismatchError."""
    require_float(type_)
    require(type_.ndim == 4, f"images [N, C, H, W] are needed, not {type_.shape}")
