"""Operators of detection whose results are several: they can be unpacked, as in the classic stack."""

from __future__ import annotations

from tilewright.compat.relay.expr import fields, tuple_valued
from tilewright.relay.op import vision

get_valid_counts = tuple_valued(vision.get_valid_counts, fields(3))
multibox_transform_loc = tuple_valued(vision.multibox_transform_loc, fields(2))
non_max_suppression = tuple_valued(vision.non_max_suppression, lambda return_indices, **_: 2 if return_indices else 1)
#: In the formats of ONNX (2 results) and TensorFlow (3).
all_class_non_max_suppression = tuple_valued(
    vision.all_class_non_max_suppression, lambda output_format, **_: 2 if output_format == "onnx" else 3
)
