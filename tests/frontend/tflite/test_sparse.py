"""Sparse constants against the dense arrays that they are of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright.errors import ModelError
from tilewright.frontend.tflite.sparse import densified

_DENSE = np.array([[0, 3, 0, 0], [0, 0, 0, 0], [5, 0, 0, 7]], "float32")


def _compressed_rows(segments: list[int], indices: list[int]) -> Any:
    """The traversal of a matrix whose rows are dense and whose columns are compressed."""
    rows = SimpleNamespace(format=0, dense_size=len(_DENSE))
    columns = SimpleNamespace(
        format=1, array_segments=SimpleNamespace(values=segments), array_indices=SimpleNamespace(values=indices)
    )
    return SimpleNamespace(traversal_order=np.array([0, 1]), block_map=None, dim_metadata=[rows, columns])


def test_compressed_rows_are_spread() -> None:
    stored = np.array([3, 5, 7], "float32")
    made = densified(_compressed_rows([0, 1, 1, 3], [1, 0, 3]), stored.view("uint8"), (3, 4), stored.dtype, "w")
    np.testing.assert_array_equal(made, _DENSE)


def test_segments_out_of_order_are_an_error() -> None:
    stored = np.array([3, 5, 7], "float32")
    with pytest.raises(ModelError, match=r"w has a sparse form that does not fit its shape .*out of order"):
        densified(_compressed_rows([0, 3, 1, 3], [1, 0, 3]), stored.view("uint8"), (3, 4), stored.dtype, "w")
