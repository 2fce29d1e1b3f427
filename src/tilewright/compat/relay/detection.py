"""Operators of detection whose results are several: they can be unpacked, as in the classic stack."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.relay.expr import TupleWrapper, tuple_valued
from tilewright.relay.op import vision


def _fields(count: int) -> Any:
    return lambda *_args, **_options: count


get_valid_counts = tuple_valued(vision.get_valid_counts, _fields(3))
multibox_transform_loc = tuple_valued(vision.multibox_transform_loc, _fields(2))


def non_max_suppression(
    data: relay.Expr,
    valid_count: relay.Expr,
    indices: relay.Expr,
    max_output_size: Any = -1,
    iou_threshold: Any = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Any:
    """Of boxes those that overlap no better one of their kind: as rows, or as (row numbers, how many)."""
    made = vision.non_max_suppression(
        data, valid_count, indices, max_output_size, iou_threshold, force_suppress, top_k, coord_start, score_index,
        id_index, return_indices, invalid_to_bottom,
    )  # fmt: skip
    return TupleWrapper(made, 2) if return_indices else made


def all_class_non_max_suppression(
    boxes: relay.Expr,
    scores: relay.Expr,
    max_output_boxes_per_class: Any = -1,
    iou_threshold: Any = -1.0,
    score_threshold: Any = -1.0,
    output_format: str = "onnx",
) -> TupleWrapper:
    """The boxes to keep for each class, in the formats of ONNX (2 results) and TensorFlow (3)."""
    made = vision.all_class_non_max_suppression(
        boxes, scores, max_output_boxes_per_class, iou_threshold, score_threshold, output_format
    )
    return TupleWrapper(made, 2 if output_format == "onnx" else 3)
