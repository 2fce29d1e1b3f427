"""Shapes that a user sets for inputs, by name or position, and what to write where sizes are open and must not be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

from tilewright.errors import ShapeError

#: A size, the name of a symbolic one, or None for one that stays as the model has it.
Size = SupportsIndex | str | None

#: Shapes by the name or the position of an input, or of the first inputs in order.
Shapes = Mapping[str, Sequence[Size]] | Mapping[int, Sequence[Size]] | Sequence[Sequence[Size]]

#: The shape that is shown for an input of which not even the rank is known.
_IMAGE = (1, 3, 224, 224)


def as_mapping(shapes: Shapes | None) -> dict[Any, tuple[Any, ...]] | None:
    """Shapes by name or position. Raises `ShapeError` for what holds none."""
    if shapes is None:
        return None
    entries = list(shapes.items()) if isinstance(shapes, Mapping) else None
    if entries is None and isinstance(shapes, list | tuple):
        entries = list(enumerate(shapes))
    if entries is None or any(isinstance(shape, str) or not isinstance(shape, Sequence) for _, shape in entries):
        raise ShapeError(
            f"input_shapes={shapes!r} is no mapping of names to shapes; write input_shapes={{'x': (1, 3, 224, 224)}}, "
            "or [(1, 3, 224, 224)] for shapes by position"
        )
    return {name: tuple(shape) for name, shape in entries}


def shapes_by_name(shapes: Shapes | None, names: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Shapes by name, of which some are given by the position of the input among `names`: `{0: (1, 3)}`, `{"0": …}`.

    Raises `ShapeError` for a position that there is not, and for an input that is given twice.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for key, shape in (as_mapping(shapes) or {}).items():
        named = isinstance(key, str) and (key in names or not key.isdigit())
        if not named and not 0 <= int(key) < len(names):
            raise ShapeError(
                f"input_shapes has a shape for the input {key}; the model has {len(names)}: {', '.join(names)}"
            )
        name = str(key) if named else names[int(key)]
        if name in found:
            raise ShapeError(f"input_shapes has a shape for the input {name!r} by its name and by its position")
        found[name] = shape
    return found


def plausible_shapes(inputs: Sequence[tuple[str, Sequence[Any] | None]]) -> dict[str, tuple[int, ...]]:
    """A shape to show for each input, by name; `dims` of None is an unknown rank.

    1 stands for the batch, 224 for the sides of an image, 64 for another length; one name has one size everywhere.
    """
    chosen: dict[str, int] = {}
    shapes = {}
    for name, dims in inputs:
        image = dims is not None and len(dims) == 4 and dims[1] in (1, 3)
        extents = []
        for axis, dim in enumerate(_IMAGE if dims is None else dims):
            shown = 1 if axis == 0 else 224 if image and axis > 1 else 64
            label = f"{name}_{axis}" if dim is None else str(dim)
            extents.append(dim if isinstance(dim, int) else chosen.setdefault(label, shown))
        shapes[name] = tuple(extents)
    return shapes


def shapes_option(inputs: Sequence[tuple[str, Sequence[Any] | None]]) -> str:
    """``--input-shapes "x:[1,3,224,224]"``: the option that fixes all sizes of `inputs`."""
    shown = ",".join(f"{name}:[{','.join(map(str, shape))}]" for name, shape in plausible_shapes(inputs).items())
    return f'--input-shapes "{shown}"'


def how_to_fix(inputs: Sequence[tuple[str, Sequence[Any] | None]]) -> str:
    """The option, and the same for a call in Python."""
    shown = ", ".join(f"{name!r}: {shape}" for name, shape in plausible_shapes(inputs).items())
    return f"{shapes_option(inputs)} (in Python: input_shapes={{{shown}}})"
