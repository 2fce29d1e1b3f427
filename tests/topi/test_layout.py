"""Layout spellings: parsing, shapes and index maps."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import TypeMismatchError
from tilewright.topi.layout import Layout, parse_layout, transform_indices, transform_shape


def test_a_layout_is_parsed_into_dimensions_and_blocks():
    layout = Layout("OIHW4i16o2i")
    assert layout.primal == "OIHW" and layout.ndim == 7 and layout.is_blocked
    assert layout.blocks["I"] == (4, 2) and layout.block_of("I") == 8 and layout.block_of("H") == 1
    assert parse_layout("NCHW") is parse_layout("NCHW")


@pytest.mark.parametrize("spelling", ["", "NCNW", "NC16h", "16cNCHW16", "nchw", "NCHW c"])
def test_bad_spellings_are_no_layouts(spelling):
    with pytest.raises(TypeMismatchError, match="is not a layout"):
        Layout(spelling)


def test_shapes_follow_their_layout():
    assert transform_shape((1, 32, 7, 7), "NCHW", "NCHW16c") == (1, 2, 7, 7, 16)
    assert transform_shape((4, 2, 3, 3, 8, 16), "OIHW8i16o", "OIHW") == (64, 16, 3, 3)
    with pytest.raises(TypeMismatchError, match="blocks C by 16, the shape"):
        transform_shape((1, 2, 7, 7, 8), "NCHW16c", "NCHW")


def test_indices_are_a_bijection():
    for src, dst, shape in (("NCHW", "NCHW4c", (2, 8, 1, 3)), ("NCHW2c", "NHWC4c", (1, 4, 2, 2, 2))):
        result = transform_shape(shape, src, dst)
        seen = {tuple(transform_indices(index, src, dst)) for index in np.ndindex(*result)}
        assert seen == set(np.ndindex(*shape))
