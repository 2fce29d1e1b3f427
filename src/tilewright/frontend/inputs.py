"""The inputs of a model and their shapes, for every format: what the file declares, completed by what the user gave.

    resolve_inputs([Declared("x", ("batch", 3), DType("float32"))], {"x": (1, 3)})

A symbolic extent becomes a size variable: one for each name in the file, one for each position without a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import ShapeError
from tilewright.relay.ir.type import TensorType, Type
from tilewright.support.dtype import DType
from tilewright.support.open_sizes import Shapes, how_to_fix, shapes_by_name
from tilewright.te import size_var

Dim = int | str
"""A declared extent: a number, or the name of a dynamic one (``?`` where the file has none)."""


@dataclass(frozen=True)
class InputSpec:
    """One input of the compiled model."""

    name: str
    type: Type

    @property
    def is_tensor(self) -> bool:
        """False for a sequence, a map or the like."""
        return isinstance(self.type, TensorType)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents of a tensor; () for anything else."""
        return self.type.shape if isinstance(self.type, TensorType) else ()

    @property
    def dtype(self) -> DType:
        """The element type of a tensor."""
        assert isinstance(self.type, TensorType)
        return self.type.dtype


@dataclass(frozen=True)
class Declared:
    """One input as a file declares it: a tensor of `dims` (None: of any rank) and `dtype`, or something of `type`."""

    name: str
    dims: tuple[Dim, ...] | None
    dtype: DType | None
    type: Type | None = None

    @property
    def is_tensor(self) -> bool:
        """False for a sequence, a map or the like."""
        return self.type is None

    @property
    def labels(self) -> tuple[Dim, ...] | None:
        """The extents, each symbolic one by the name of its size variable; None for an unknown rank, or no tensor."""
        return None if self.dims is None else tuple(_label(self.name, axis, dim) for axis, dim in enumerate(self.dims))


def resolve_inputs(
    declared: Sequence[Declared], input_shapes: Shapes | None, sizes: dict[str, Any] | None = None
) -> list[InputSpec]:
    """Specs of a model's inputs, in order.

    `input_shapes` are by name or position. A dynamic extent takes its value from them, or from another input that
    shares its symbol; a symbolic one becomes a size variable, kept in `sizes` by name.
    Raises `ShapeError` naming an unknown input, a wrong rank, a conflict, or every input of unknown rank.
    """
    sizes = {} if sizes is None else sizes
    named = shapes_by_name(input_shapes, [entry.name for entry in declared])
    given = {name: tuple(_given(extent) for extent in shape) for name, shape in named.items()}
    _check_names(given, declared)
    symbols: dict[str, tuple[int, str]] = {}
    for entry in declared:
        if entry.name in given:
            _bind(entry, given[entry.name], symbols)
    specs, missing = [], []
    for entry in declared:
        dims = given.get(entry.name, entry.dims)
        if entry.type is not None:
            specs.append(InputSpec(entry.name, entry.type))
        elif dims is None:
            missing.append(entry)
        else:
            shape = [_extent(entry.name, axis, dim, symbols, sizes) for axis, dim in enumerate(dims)]
            specs.append(InputSpec(entry.name, TensorType(shape, entry.dtype)))
    if missing:
        raise ShapeError(_missing_message(missing, symbols))
    return specs


def _given(extent: Any) -> Dim:
    """An extent that the user gave: a number, or the name of a symbolic one."""
    return extent if isinstance(extent, str) else int(extent)


def _check_names(given: Mapping[str, tuple[Dim, ...]], declared: Sequence[Declared]) -> None:
    names = [entry.name for entry in declared]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ShapeError(
            f"the model has no input named {', '.join(map(repr, unknown))}; its inputs are: "
            + ", ".join(f"{entry.name!r} {_dims_text(entry.dims)}" for entry in declared)
        )


def _bind(entry: Declared, shape: tuple[Dim, ...], symbols: dict[str, tuple[int, str]]) -> None:
    text = f"input {entry.name!r}: the given shape {list(shape)}"
    if any(isinstance(extent, int) and extent < 0 for extent in shape):
        raise ShapeError(f"{text} has a negative extent")
    if entry.dims is None:
        return
    if len(shape) != len(entry.dims):
        raise ShapeError(
            f"{text} has {len(shape)} dimensions, but the model declares {len(entry.dims)}: {_dims_text(entry.dims)}"
        )
    for axis, (extent, dim) in enumerate(zip(shape, entry.dims)):
        if isinstance(extent, str):
            continue
        if isinstance(dim, int):
            if dim not in (extent, 0):  # Some exporters write 0 for an unknown extent.
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


def _extent(name: str, axis: int, dim: Dim, symbols: Mapping[str, tuple[int, str]], sizes: dict[str, Any]) -> Any:
    """The extent of an axis: a number, or the size variable of its name or position."""
    value = _value(dim, symbols)
    if value is not None:
        return value
    label = str(_label(name, axis, dim))
    return sizes.setdefault(label, size_var(_identifier(label)))


def _label(name: str, axis: int, dim: Dim) -> Dim:
    """A number, or the name of a symbolic dimension: a position without one is a size of its own."""
    return f"{name}_{axis}" if dim == "?" else dim


def _identifier(label: str) -> str:
    """`label` with what no identifier holds replaced."""
    plain = "".join(letter if letter.isalnum() else "_" for letter in label)
    return plain if plain[:1].isalpha() else f"n_{plain}"


def _missing_message(missing: Sequence[Declared], symbols: Mapping[str, tuple[int, str]]) -> str:
    lines = [f"  {entry.name!r}: {_dims_text(entry.dims)}, where {_open(entry.dims, symbols)}" for entry in missing]
    given = [(entry.name, _known(entry.dims, symbols)) for entry in missing]
    return (
        "the model does not fix the number of dimensions of inputs, and it must be fixed at compile time:\n"
        + "\n".join(lines)
        + f"\nGive them, for example with {how_to_fix(given)}"
    )


def _known(dims: tuple[Dim, ...] | None, symbols: Mapping[str, tuple[int, str]]) -> list[Any] | None:
    """The extents that are known, and the names of the others."""
    return None if dims is None else [dim if (known := _value(dim, symbols)) is None else known for dim in dims]


def _open(dims: tuple[Dim, ...] | None, symbols: Mapping[str, tuple[int, str]]) -> str:
    if dims is None:
        return "the number of dimensions is unknown"
    axes = [f"axis {axis} ({dim})" for axis, dim in enumerate(dims) if _value(dim, symbols) is None]
    return f"{', '.join(axes)} {'is' if len(axes) == 1 else 'are'} not fixed"


def _dims_text(dims: tuple[Dim, ...] | None) -> str:
    return "[unknown rank]" if dims is None else f"[{', '.join(map(str, dims))}]"
