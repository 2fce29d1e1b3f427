"""Operands of another shape than the others ask for are refused: NumPy would repeat them, or take a part of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.errors import InputError
from tilewright.runtime import host_ops  # noqa: F401  the operators register themselves
from tilewright.runtime.host_ops.registry import find

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
IMAGE = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


#: Operator, attributes, operands that fit each other, the one that is replaced, and by what.
CASES: list[tuple[str, dict[str, Any], list[Any], int, Any]] = [
    ("Tile", {}, [X, ints(1, 2, 1)], 1, ints(2, 1)),
    ("Pad", {}, [X, ints(0, 1, 0, 0, 0, 1)], 1, ints(0, 1, 0, 0, 0, 1, 1, 1)),
    ("Slice", {}, [X, ints(0, 1), ints(1, 2)], 2, ints(1, 2, 3)),
    ("CenterCropPad", {}, [X, ints(2, 5, 2)], 1, ints(2, 5)),
    ("ScatterElements", {}, [X, ints(0, 1).reshape(1, 2, 1), ones(1, 2, 1)], 2, ones(1, 1, 1)),
    ("ScatterND", {}, [X, ints(0, 1).reshape(2, 1), ones(2, 3, 4)], 2, ones(2, 1, 4)),
    ("TensorScatter", {}, [X, ones(2, 1, 4), ints(0, 2)], 1, ones(2, 1, 1)),
    ("TensorScatter", {}, [X, ones(2, 1, 4), ints(0, 2)], 2, ints(0, 2, 1)),
    ("ReverseSequence", {}, [X, ints(1, 2, 0)], 1, ints(1, 2)),
    ("NonMaxSuppression", {}, [ones(1, 2, 4), ones(1, 1, 2), ints(1)], 0, ones(1, 3, 4)),
    ("MatMulInteger", {}, [X[0].astype(np.int8), ones(4, 2).astype(np.int8)], 0, ones(3, 3).astype(np.int8)),
    ("MatMulInteger", {}, [ones(1, 4).astype("i1"), ones(4, 2).astype("i1"), ints(1)], 2, ints(1, 2)),
    ("Clip", {}, [X, ones(1), ones()], 1, ones(2, 3, 4)),
    ("OneHot", {}, [ints(0, 1), ints(3), ones(2)], 2, ones(3)),
    ("GatherND", {"batch_dims": 1}, [X, ints(0, 1).reshape(2, 1)], 1, ints(0).reshape(1, 1)),
    ("Resize", {}, [X, ones(0), ones(3) * 2], 2, ones(4) * 2),
    ("Upsample", {}, [X, ones(3) * 2], 1, ones(2) * 2),
    ("DFT", {}, [ones(1, 4, 2)], 0, ones(1, 4, 3)),
    ("STFT", {}, [ones(1, 8, 1), ints(2), ones(4)], 0, ones(1, 8, 3)),
    ("Col2Im", {}, [ones(1, 4, 4), ints(3, 3), ints(2, 2)], 0, ones(1, 5, 4)),
    ("MaxRoiPool", {"pooled_shape": [1, 1]}, [IMAGE, ones(2, 5) * 0], 1, ones(2, 4) * 0),
    ("RoiAlign", {}, [IMAGE, ones(2, 4), ints(0, 0)], 2, ints(0, 0, 0)),
    ("MaxUnpool", {"kernel_shape": [1]}, [ones(1, 1, 2), ints(0, 1).reshape(1, 1, 2)], 0, ones(1, 1, 1)),
    ("DeformConv", {}, [IMAGE, ones(2, 1, 2, 2), ones(1, 8, 5, 5), ones(2)], 3, ones(1)),
    ("DeformConv", {}, [IMAGE, ones(2, 1, 2, 2), ones(1, 8, 5, 5), ones(2)], 2, ones(1, 8, 4, 5)),
    ("DeformConv", {}, [IMAGE, ones(2, 1, 2, 2), ones(1, 8, 5, 5), ones(2), ones(1, 4, 5, 5)], 4, ones(1, 5, 4, 5)),
]  # fmt: skip


@pytest.mark.parametrize("name, attrs, fitting, index, other", CASES)
def test_operands_of_another_shape_are_refused(
    name: str, attrs: dict[str, Any], fitting: list[Any], index: int, other: Any
) -> None:
    function = find(f"onnx.{name}", attrs)
    function(*fitting)
    with pytest.raises(InputError, match="Resize" if name == "Upsample" else name):
        function(*fitting[:index], other, *fitting[index + 1 :])


@pytest.mark.parametrize(
    "name, operands, shape",
    [
        ("Conv", [ones(0, 2, 6), ones(4, 2, 3)], (0, 4, 4)),
        ("Conv", [ones(2, 2, 6), ones(0, 2, 3)], (2, 0, 4)),
        ("MaxPool", [ones(0, 2, 6)], (0, 2, 4)),
        ("AveragePool", [ones(2, 0, 6)], (2, 0, 4)),
        ("LpPool", [ones(0, 0, 6)], (0, 0, 4)),
    ],
)
def test_windows_of_no_images(name: str, operands: list[Any], shape: tuple[int, ...]) -> None:
    made = find(f"onnx.{name}", {"kernel_shape": [3]})(*operands)
    assert (made[0] if isinstance(made, tuple) else made).shape == shape
