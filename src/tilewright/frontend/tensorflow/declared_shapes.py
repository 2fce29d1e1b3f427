"""The shapes that a TensorFlow file declares of its tensors, against those that the importer derived.

Every node that TensorFlow writes with `_output_shapes` says what it infers of its results, -1 where an extent is open.
A result of another rank, or with another number in place of a number, is a wrong conversion or a damaged file: either
way the numbers behind it cannot be trusted, so that it is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.frontend.messages import Record
from tilewright.frontend.tensorflow.tensors import shape_of_proto
from tilewright.frontend.tensorflow.values import Dims
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of

#: Operators whose results are handles in the file, and lists or shapes here.
_HANDLES = ("TensorArray", "TensorList", "EmptyTensorList")


def contradiction(record: Record, place: int, value: Any) -> str | None:
    """How the shape of a result contradicts the declared one; None where it fits or nothing is declared."""
    attribute = record.attr.get("_output_shapes")
    if attribute is None or record.op.startswith(_HANDLES):
        return None
    listed = attribute.list.shape
    declared = shape_of_proto(listed[place]) if place < len(listed) else None
    found = _shape(value)
    if declared is None or found is None or fits(found, declared):
        return None
    return f"its result {place} came out as {_text(found)}; the file declares {_text(declared)} (_output_shapes)"


def fits(found: Sequence[Any], declared: Sequence[int]) -> bool:
    """True where each extent that is a number on both sides is the same, and there are as many."""
    return len(found) == len(declared) and all(
        one < 0 or not isinstance(extent, int) or extent == one for extent, one in zip(found, declared)
    )


def _shape(value: Any) -> tuple[Any, ...] | None:
    if isinstance(value, Dims):
        return value.shape
    found = type_of(value) if isinstance(value, Expr) else None
    return found.shape if isinstance(found, TensorType) else None


def _text(shape: Sequence[Any]) -> str:
    return f"[{', '.join('?' if isinstance(extent, int) and extent < 0 else str(extent) for extent in shape)}]"
