"""The table of converters names real operators, and picks the entry whose opset applies."""

from __future__ import annotations

import onnx
import pytest

from tilewright.frontend.onnx import convert
from tilewright.frontend.onnx.registry import converts


def test_every_entry_is_an_onnx_operator() -> None:
    assert convert.convert_model is not None  # importing it registers all converters
    known = {(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas_with_history()}
    known.add(("", "SimplifiedLayerNormalization"))  # onnxruntime's, which its optimizer puts into ONNX's domain
    entries = converts.entries()
    assert len(entries) > 140
    for domain, name, first in entries:
        if domain == "":
            assert (domain, name) in known, name
            assert first >= 1


@pytest.mark.parametrize(
    ("operator", "opset", "expected"),
    [
        ("Clip", 6, "convert_clip_1"),
        ("Clip", 10, "convert_clip_1"),
        ("Clip", 11, "convert_clip_11"),
        ("ReduceMean", 13, "convert_reduce"),
        ("ReduceMean", 18, "convert_reduce"),
        ("Resize", 11, "convert_resize_11"),
        ("Gelu", 19, None),
        ("Gelu", 20, "convert_gelu"),
    ],
)
def test_the_highest_entry_reached_applies(operator: str, opset: int, expected: str | None) -> None:
    found = converts.find(operator, opset)
    assert getattr(found, "__name__", None) == expected
