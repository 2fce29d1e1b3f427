"""The inputs of a TFLite model: the shapes of the file, or what the user gives in their place.

The file states a shape for each input, and which extents of it may vary (-1 in its signature). What the user does not
give stays as stated, as the interpreter runs it: a model is of fixed sizes unless asked otherwise. A name in place of
a number leaves an extent open. A file without a rank for an input, which states the shape [], takes a shape of any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.errors import ShapeError, UnsupportedError
from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.tflite.model import Tensor
from tilewright.relay.ir.type import TensorType
from tilewright.support.open_sizes import how_to_fix, shapes_by_name
from tilewright.te import size_var


def input_specs(tensors: Sequence[Tensor], input_shapes: Mapping[str, Sequence[Any]] | None) -> list[InputSpec]:
    """The specs of the model's inputs, in order.

    Raises `ShapeError` for an unknown input, a wrong rank or an extent that the file fixes to another number.
    """
    names = [tensor.name for tensor in tensors]
    given = shapes_by_name(input_shapes, names)
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ShapeError(
            f"the model has no input named {', '.join(map(repr, unknown))}; its inputs are: "
            + ", ".join(f"{tensor.name!r} {list(tensor.signature)}" for tensor in tensors)
        )
    sizes: dict[str, Any] = {}
    specs = []
    for tensor in tensors:
        if not tensor.dtype or tensor.element_type == "RESOURCE":
            raise UnsupportedError(f"input {tensor.name!r} holds {tensor.element_type}, which is not supported")
        shape = [_extent(extent, sizes) for extent in _chosen(tensor, given.get(tensor.name))]
        specs.append(InputSpec(tensor.name, TensorType(shape, tensor.dtype)))
    return specs


def _chosen(tensor: Tensor, given: Sequence[Any] | None) -> Sequence[Any]:
    """The extents of an input, numbers and names."""
    if given is None and tensor.has_rank is False:
        raise ShapeError(
            f"the file leaves the number of dimensions of input {tensor.name!r} open, and it must be fixed at compile "
            f"time; give it, for example with {how_to_fix([(tensor.name, None)])}, or () for a scalar"
        )
    if given is None:
        return tuple(max(extent, 1) if extent == -1 else extent for extent in tensor.shape)
    given = [extent if isinstance(extent, str) else int(extent) for extent in given]
    text = f"input {tensor.name!r}: the given shape {given}"
    if not tensor.has_rank:
        if any(isinstance(extent, int) and extent < 0 for extent in given):
            raise ShapeError(f"{text} has a negative extent")
        return given
    if len(given) != len(tensor.shape):
        raise ShapeError(f"{text} has {len(given)} dimensions, the model declares {list(tensor.signature)}")
    for axis, (extent, declared) in enumerate(zip(given, tensor.signature)):
        if isinstance(extent, int) and (extent < 0 or declared not in (-1, extent)):
            raise ShapeError(f"{text} has extent {extent} at axis {axis}; the model declares {list(tensor.signature)}")
    return given


def _extent(extent: Any, sizes: dict[str, Any]) -> Any:
    return sizes.setdefault(extent, size_var(extent)) if isinstance(extent, str) else extent
