"""The inputs of a model and their static shapes: what the file declares, completed by what the user gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import ModelError, ShapeError, UnsupportedError
from tilewright.frontend.onnx.tensors import dtype_of
from tilewright.support.dtype import DType

Dim = int | str
"""A declared extent: a positive number, or the name of a dynamic one (``?`` where the file gives none)."""


@dataclass(frozen=True)
class InputSpec:
    """One input of the compiled model."""

    name: str
    shape: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True)
class _Declared:
    name: str
    dims: tuple[Dim, ...] | None
    dtype: DType


def resolve_inputs(graph_inputs: Sequence[Any], input_shapes: Mapping[str, Sequence[int]] | None) -> list[InputSpec]:
    """Static specs of the graph's inputs, in order.

    A dynamic extent takes its value from `input_shapes`, by position or from another input that shares its symbol.
    Raises `ShapeError` naming an unknown input, a wrong rank, a conflict, or every input whose shape is still open.
    """
    declared = [_declared(value) for value in graph_inputs]
    given = {name: tuple(int(extent) for extent in shape) for name, shape in (input_shapes or {}).items()}
    _check_names(given, declared)
    symbols: dict[str, tuple[int, str]] = {}
    for entry in declared:
        if entry.name in given:
            _bind(entry, given[entry.name], symbols)
    specs, missing = [], []
    for entry in declared:
        dims = given.get(entry.name, entry.dims)
        shape = None if dims is None else tuple(_value(dim, symbols) for dim in dims)
        if shape is None or None in shape:
            missing.append(entry)
        else:
            specs.append(InputSpec(entry.name, shape, entry.dtype))  # type: ignore[arg-type]
    if missing:
        raise ShapeError(_missing_message(missing, symbols))
    return specs


def _declared(value: Any) -> _Declared:
    if not isinstance(value.name, str):
        raise ModelError(f"an input has a name that is not text: {value.name!r}")
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise UnsupportedError(f"input {value.name!r} is a {kind or 'value of no type'}; only tensors are supported")
    tensor = value.type.tensor_type
    dims = tuple(_dim(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    return _Declared(value.name, dims, dtype_of(tensor.elem_type, f"input {value.name!r}"))


def _dim(dim: Any) -> Dim:
    if dim.dim_value > 0:
        return int(dim.dim_value)
    return str(dim.dim_param) or "?"


def _check_names(given: Mapping[str, tuple[int, ...]], declared: Sequence[_Declared]) -> None:
    names = [entry.name for entry in declared]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ShapeError(
            f"the model has no input named {', '.join(map(repr, unknown))}; its inputs are: "
            + ", ".join(f"{entry.name!r} {_dims_text(entry.dims)}" for entry in declared)
        )


def _bind(entry: _Declared, shape: tuple[int, ...], symbols: dict[str, tuple[int, str]]) -> None:
    text = f"input {entry.name!r}: the given shape {list(shape)}"
    if any(extent < 1 for extent in shape):
        raise ShapeError(f"{text} has an extent below 1; every extent must be a positive number")
    if entry.dims is None:
        return
    if len(shape) != len(entry.dims):
        raise ShapeError(
            f"{text} has {len(shape)} dimensions, but the model declares {len(entry.dims)}: {_dims_text(entry.dims)}"
        )
    for axis, (extent, dim) in enumerate(zip(shape, entry.dims)):
        if isinstance(dim, int):
            if dim != extent:
                raise ShapeError(
                    f"{text} has extent {extent} at axis {axis}, which the model fixes to {dim}: "
                    + _dims_text(entry.dims)
                )
        elif dim != "?":
            bound, origin = symbols.setdefault(dim, (extent, entry.name))
            if bound != extent:
                raise ShapeError(
                    f"{text} sets the dimension {dim!r} to {extent}, "
                    f"but input {origin!r} sets the same dimension to {bound}"
                )


def _value(dim: Dim, symbols: Mapping[str, tuple[int, str]]) -> int | None:
    if isinstance(dim, int):
        return dim
    return symbols[dim][0] if dim in symbols else None


def _missing_message(missing: Sequence[_Declared], symbols: Mapping[str, tuple[int, str]]) -> str:
    lines = [f"  {entry.name!r}: {_dims_text(entry.dims)}, where {_open(entry.dims, symbols)}" for entry in missing]
    example = ",".join(f"{entry.name}:[{','.join(map(str, _example(entry.dims, symbols)))}]" for entry in missing)
    return (
        "the model leaves input shapes open, and they must be fixed at compile time:\n"
        + "\n".join(lines)
        + f'\nGive them, for example with --input-shapes "{example}"'
        + f" (in Python: input_shapes={{{', '.join(f'{e.name!r}: {_example(e.dims, symbols)}' for e in missing)}}})"
    )


def _open(dims: tuple[Dim, ...] | None, symbols: Mapping[str, tuple[int, str]]) -> str:
    if dims is None:
        return "the number of dimensions is open"
    axes = [f"axis {axis} ({dim})" for axis, dim in enumerate(dims) if _value(dim, symbols) is None]
    return f"{', '.join(axes)} {'is' if len(axes) == 1 else 'are'} not fixed"


def _example(dims: tuple[Dim, ...] | None, symbols: Mapping[str, tuple[int, str]]) -> tuple[int, ...]:
    """A plausible shape to show: 1 for the batch, 224 for image height and width, 64 for another length."""
    if dims is None:
        return (1, 3, 224, 224)
    image = len(dims) == 4 and dims[1] in (1, 3)

    def pick(axis: int, dim: Dim) -> int:
        known = _value(dim, symbols)
        if known is not None:
            return known
        return 1 if axis == 0 else 224 if image and axis > 1 else 64

    return tuple(pick(axis, dim) for axis, dim in enumerate(dims))


def _dims_text(dims: tuple[Dim, ...] | None) -> str:
    return "[unknown rank]" if dims is None else f"[{', '.join(map(str, dims))}]"
