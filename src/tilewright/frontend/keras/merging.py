"""Layers that join several tensors; where these have masks, what is masked does not count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from tilewright.frontend.builders.product import matmul
from tilewright.frontend.idioms import broadcast_to, concatenate, full, product, rank_of, reshape, shape_of
from tilewright.frontend.keras.layer import Layer, tensors
from tilewright.frontend.keras.normalization import normalized
from tilewright.frontend.keras.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_MERGES: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Add": op.add, "Subtract": op.subtract, "Multiply": op.multiply, "Average": op.add, "Maximum": op.maximum,
    "Minimum": op.minimum,
}  # fmt: skip


@converts(*_MERGES)
def convert_merge(layer: Layer, inputs: Sequence[Expr]) -> Expr:
    parts = _listed(layer, inputs)
    if layer.class_name == "Subtract" and len(parts) != 2:
        layer.bad(f"it takes two tensors, not {len(parts)}")
    masks = list(layer.mask_of(inputs))
    rank = max(rank_of(part) for part in parts)
    wide = [_on_rank(part, rank) for part in parts]
    together: Expr | None = None
    if layer.class_name in ("Maximum", "Minimum"):
        made, together = _merged(_MERGES[layer.class_name], wide, masks)
    elif layer.class_name == "Multiply":
        made = _multiplied(wide, masks)
    else:
        made = reduce(_MERGES[layer.class_name], wide)
    if all(mask is not None for mask in masks):
        layer.set_mask(reduce(op.logical_or, masks) if together is None else together)
    if layer.class_name == "Average":
        made = made / len(parts)
    return made


def _multiplied(parts: Sequence[Expr], masks: Sequence[Expr | None]) -> Expr:
    """The product, in which what is masked counts as 1; 0 where everything is masked."""
    wide = [None if mask is None else _wide(mask, part) for part, mask in zip(parts, masks)]
    kept = [part if mask is None else op.where(mask, part, 1) for part, mask in zip(parts, wide)]
    made = reduce(op.multiply, kept)
    seen = [mask for mask in wide if mask is not None]
    return op.where(reduce(op.logical_or, seen), made, 0) if len(seen) == len(parts) else made


def _wide(mask: Expr, part: Expr) -> Expr:
    return broadcast_to(op.expand_dims(mask, axis=rank_of(mask)), shape_of(part))


def _listed(layer: Layer, inputs: Any) -> list[Expr]:
    if not isinstance(inputs, list | tuple) or not inputs or not all(isinstance(part, Expr) for part in inputs):
        layer.bad("it takes a list of tensors")
    return list(inputs)


def _on_rank(value: Expr, rank: int) -> Expr:
    """Axes of extent 1 behind the batch."""
    missing = rank - rank_of(value)
    return op.expand_dims(value, axis=1, num_newaxis=missing) if missing else value


def _merged(
    function: Callable[[Expr, Expr], Expr], parts: Sequence[Expr], masks: Sequence[Expr | None]
) -> tuple[Expr, Expr | None]:
    """All parts by one function: where a mask hides a part, the sum of those before stands for it; and their mask."""
    made: Expr | None = None
    seen: Expr | None = None
    for part, mask in zip(parts, masks):
        wide = None if mask is None else _wide(mask, part)
        if made is None:
            made, seen = part, wide
            continue
        if wide is not None:
            part = op.where(wide, part, made)
        if seen is not None:
            made = op.where(seen, made, part)
        seen = op.logical_or(seen, wide) if wide is not None and seen is not None else None
        made = function(made, part)
    assert made is not None
    return made, None if seen is None else op.any(seen, axis=(rank_of(seen) - 1,))


@converts("Concatenate")
def convert_concatenate(layer: Layer, inputs: Sequence[Expr]) -> Expr:
    parts = tensors(*_listed(layer, inputs))
    axis = int(layer.get("axis", -1))
    masks = layer.mask_of(inputs)
    if any(mask is not None for mask in masks):
        layer.set_mask(_joined_mask(parts, masks, axis))
    return concatenate(parts, axis % rank_of(parts[0]))


def _joined_mask(parts: Sequence[Expr], masks: Sequence[Expr | None], axis: int) -> Expr:
    wide = []
    for part, mask in zip(parts, masks):
        if mask is None:
            wide.append(full(True, shape_of(part), "bool"))
        elif rank_of(mask) < rank_of(part):
            wide.append(_wide(mask, part))
        else:
            wide.append(mask)
    whole = concatenate(wide, axis % rank_of(wide[0]))
    return op.any(whole, axis=(rank_of(whole) - 1,))


@converts("Dot")
def convert_dot(layer: Layer, inputs: Sequence[Expr]) -> Expr:
    left, right = _listed(layer, inputs)
    axes = layer["axes"]
    first, second = axes if isinstance(axes, list | tuple) else (axes, axes)
    first, second = int(first) % rank_of(left), int(second) % rank_of(right)
    if layer.get("normalize"):
        left, right = normalized(left, (first,), 2, _TINY), normalized(right, (second,), 2, _TINY)
    if not first or not second:
        layer.bad("the product of the batch axis is none of one sample")
    return batch_dot(left, right, first, second)


#: The least value of norms where Keras states none.
_TINY = 1e-7


def batch_dot(left: Expr, right: Expr, first: int, second: int) -> Expr:
    """Of each sample the products summed over one axis of each operand; a result without other axes keeps one."""
    a = [axis for axis in range(1, rank_of(left)) if axis != first]
    b = [axis for axis in range(1, rank_of(right)) if axis != second]
    rows, columns = [shape_of(left)[axis] for axis in a], [shape_of(right)[axis] for axis in b]
    batch, inner = shape_of(left)[0], shape_of(left)[first]
    x = reshape(op.transpose(left, axes=(0, *a, first)), (batch, product(rows), inner))
    y = reshape(op.transpose(right, axes=(0, second, *b)), (batch, inner, product(columns)))
    shape = (batch, *rows, *columns)
    return reshape(matmul(x, y), shape if len(shape) > 1 else (batch, 1))
