"""Data types by the spellings of the field."""

from __future__ import annotations

from tilewright.support.dtype import DType


def test_spellings_without_a_width() -> None:
    assert DType("float") is DType("float32") and DType("int") is DType("int32") and DType("uint") is DType("uint32")
    assert DType("int1") is DType("uint1") is DType("bool")
    codes = {"int8": 0, "uint64": 1, "bool": 1, "float16": 2, "handle": 3, "bfloat16": 4}
    assert {name: DType(name).type_code for name in codes} == codes
