"""Tensors of every element type, typed, raw and in a file beside the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.frontend.onnx.tensors import array_of

PACKED = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4_e2m1fn": 4}
BYTES = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]


def codes(name: str, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    limit = 1 << PACKED.get(name, 8)
    return (np.arange(count) * 5 % limit).astype(np.uint8).view(getattr(ml_dtypes, name)).reshape(shape)


def same(a: np.ndarray, b: np.ndarray) -> None:
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


@pytest.mark.parametrize("name", [*PACKED, *BYTES])
@pytest.mark.parametrize("shape", [(3, 5), (4,), ()])
def test_raw_narrow_tensors(name: str, shape: tuple[int, ...]) -> None:
    values = codes(name, shape)
    same(array_of(numpy_helper.from_array(values, "w"), None, "initializer"), values)


@pytest.mark.parametrize("name", list(PACKED))
def test_packed_tensors_in_a_file(name: str, tmp_path: Path) -> None:
    values = codes(name, (3, 5))
    tensor = numpy_helper.from_array(values, "w")
    (tmp_path / "data.bin").write_bytes(b"1234" + tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "data.bin", "offset": "4"}.items():
        tensor.external_data.add(key=key, value=value)
    same(array_of(tensor, tmp_path, "initializer"), values)


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT8E5M2])
def test_typed_narrow_tensors(kind: int) -> None:
    values: Any = [1, 2, 3, 0, 1]
    tensor = helper.make_tensor("w", kind, [5], values)
    np.testing.assert_array_equal(array_of(tensor, None, "initializer").astype(np.float32), np.float32(values))


def test_tensors_of_text_are_decoded() -> None:
    tensor = numpy_helper.from_array(np.array([["a", "é"], ["", "long"]], object), "t")
    found = array_of(tensor, None, "initializer")
    assert found.dtype == object
    assert found.tolist() == [["a", "é"], ["", "long"]]
