"""Arrays as bytes: every data type round-trips, and damage is named."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import InputError
from tilewright.support.array_format import array_bytes, read_array

NUMBERS = [
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bool",
]
NARROW = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "int4", "uint4", "float4_e2m1fn"]


@pytest.mark.parametrize("dtype", [*NUMBERS, *NARROW])
def test_every_data_type_survives(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype) if dtype in NARROW else dtype)
    for shape in ((), (3,), (2, 0, 4), (2, 3)):
        value = (np.arange(int(np.prod(shape))) % 2).reshape(shape).astype(kind)
        data = b"before" + array_bytes(value) + b"after"
        again, end = read_array(data, 6)
        assert again.dtype == kind and again.shape == shape and again.tobytes() == value.tobytes()
        assert data[end:] == b"after"


def test_the_layout_is_the_classic_one() -> None:
    data = array_bytes(np.asarray([[1.0, 2.0]], "float32"))
    assert data[:8][::-1].hex() == "dd5e40f096b4a13f"
    assert data[8:].hex() == (
        "0000000000000000" "01000000" "00000000" "02000000" "02" "20" "0100"
        "0100000000000000" "0200000000000000" "0800000000000000" "0000803f" "00000040"
    )  # fmt: skip


def test_truncated_and_foreign_bytes_are_refused() -> None:
    data = array_bytes(np.zeros((2, 2)))
    with pytest.raises(InputError, match="truncated: 10 bytes are left, its header takes 32"):
        read_array(data[:10])
    with pytest.raises(InputError, match="truncated: 40 bytes are left, it takes"):
        read_array(data[:40])
    with pytest.raises(InputError, match="no valid header"):
        read_array(b"x" * 64)
    with pytest.raises(InputError, match="holds numbers, not arrays of string"):
        array_bytes(np.asarray(["a"], object))
