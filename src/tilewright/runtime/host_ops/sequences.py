"""ONNX operators on sequences (Python lists) and optionals (None when empty)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.onnx_op import onnx_op

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


def _position(position: Array | None, count: int, default: int) -> int:
    """The position in a sequence that an input has, counted from the front."""
    if position is None:
        return default
    at = int(np.reshape(position, -1)[0])
    return at + count if at < 0 else at


def _checked(at: int, count: int) -> int:
    if not 0 <= at < count:
        raise InputError(f"position {at} is out of range for a sequence of {count} elements")
    return at


@onnx_op("SequenceConstruct")
def construct(attrs: Attrs, *elements: Any) -> list[Any]:
    """A sequence of the inputs."""
    return list(elements)


@onnx_op("SequenceEmpty")
def empty(attrs: Attrs) -> list[Any]:
    """A sequence without elements."""
    return []


@onnx_op("SequenceAt")
def at(attrs: Attrs, sequence: list[Any], position: Array) -> Any:
    """One element."""
    return sequence[_checked(_position(position, len(sequence), 0), len(sequence))]


@onnx_op("SequenceInsert")
def insert(attrs: Attrs, sequence: list[Any], element: Any, position: Array | None = None) -> list[Any]:
    """The sequence with an element put in before a position, by default behind the last."""
    count = len(sequence)
    index = _position(position, count, count)
    if not 0 <= index <= count:
        raise InputError(f"position {index} is out of range for inserting into a sequence of {count} elements")
    return [*sequence[:index], element, *sequence[index:]]


@onnx_op("SequenceErase")
def erase(attrs: Attrs, sequence: list[Any], position: Array | None = None) -> list[Any]:
    """The sequence without one element, by default the last."""
    index = _checked(_position(position, len(sequence), len(sequence) - 1), len(sequence))
    return [*sequence[:index], *sequence[index + 1 :]]


@onnx_op("SequenceLength")
def length(attrs: Attrs, sequence: list[Any]) -> Array:
    """The number of elements."""
    return np.asarray(len(sequence), np.int64)


@onnx_op("SplitToSequence")
def split_to_sequence(attrs: Attrs, data: Array, sizes: Array | None = None) -> list[Array]:
    """Slices along an axis as a sequence: of the sizes given, of one size given, or single ones."""
    axis = int(attrs.get("axis", 0))
    extent = data.shape[axis]
    if sizes is None or sizes.ndim == 0:
        step = 1 if sizes is None else int(sizes)
        if step < 1:
            raise InputError(f"a tensor cannot be split into parts of {step} elements")
        ends = list(range(step, extent, step))
    else:
        if sizes.min(initial=0) < 0 or sizes.sum() != extent:
            raise InputError(f"the sizes {sizes.tolist()} do not add up to the {extent} elements that are to be split")
        ends = np.cumsum(sizes).tolist()[:-1]
    parts = [np.asarray(part, order="C") for part in np.split(data, ends, axis)]
    keep = sizes is not None or attrs.get("keepdims", 1)
    return parts if keep else [part.squeeze(axis) for part in parts]


@onnx_op("ConcatFromSequence")
def concat_from_sequence(attrs: Attrs, sequence: list[Array]) -> Array:
    """The elements joined along an axis, or stacked along a new one."""
    axis = int(attrs["axis"])
    if not sequence:
        raise InputError("a sequence without elements cannot be joined to a tensor")
    return np.stack(sequence, axis) if attrs.get("new_axis", 0) else np.concatenate(sequence, axis)


@onnx_op("Optional")
def optional(attrs: Attrs, value: Any = None) -> Any:
    """The value, or nothing where no input is given."""
    return value


@onnx_op("OptionalHasElement")
def has_element(attrs: Attrs, value: Any = None) -> Array:
    """True if there is a value."""
    return np.asarray(value is not None)


@onnx_op("OptionalGetElement")
def get_element(attrs: Attrs, value: Any) -> Any:
    """The value, which must be there."""
    if value is None:
        raise InputError("the value of an empty optional is requested")
    return value
