"""What to write where sizes of inputs are open and must not be: an option and a call that work as they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: The shape that is shown for an input of which not even the rank is known.
_IMAGE = (1, 3, 224, 224)


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
