"""Advice shown for symbolic dimensions works as it stands."""

from __future__ import annotations

from ast import literal_eval

from tilewright.cli.options import parse_shapes
from tilewright.support.open_sizes import how_to_fix, plausible_shapes

INPUTS = [("image", ("N", 3, "H", "W")), ("mask", ("N", "H")), ("any", None), ("x:0", (None, 7, "T"))]


def test_one_name_has_one_size() -> None:
    shapes = plausible_shapes(INPUTS)
    assert shapes == {"image": (1, 3, 224, 224), "mask": (1, 224), "any": (1, 3, 224, 224), "x:0": (1, 7, 64)}


def test_the_option_and_the_call_say_the_same() -> None:
    option, call = how_to_fix(INPUTS).split(" (in Python: input_shapes=")
    shapes = plausible_shapes(INPUTS)
    assert parse_shapes(option.removeprefix('--input-shapes "').removesuffix('"')) == shapes
    assert literal_eval(call.removesuffix(")")) == shapes
