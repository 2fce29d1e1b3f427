"""Selection among overlapping boxes. Each decision depends on all before it, so these run on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr, const
from tilewright.relay.ir.type import TensorType, TupleType, Type
from tilewright.relay.op.common import Types, call, require, same_dims, tensor, tensors
from tilewright.relay.op.host import register_host


def _boxes(type_: Type) -> TensorType:
    data = tensor(type_)
    require(data.ndim == 3 and data.dtype.is_float, f"boxes [B, N, …] of floating point are needed, not {data}")
    return data


def _valid_counts_type(types: Types, _attrs: Attrs) -> Type:
    data = _boxes(types[0])
    return TupleType([TensorType(data.shape[:1], "int32"), data, TensorType(data.shape[:2], "int32")])


def _suppression_type(types: Types, attrs: Attrs) -> Type:
    data = _boxes(types[0])
    if not attrs["return_indices"]:
        return data
    return TupleType([TensorType(data.shape[:2], "int32"), TensorType((data.shape[0], 1), "int32")])


def _all_class_type(types: Types, attrs: Attrs) -> Type:
    _, scores, *_ = tensors(types)
    known = ("onnx", "tensorflow")
    require(attrs["output_format"] in known, f"output_format {attrs['output_format']!r}; known: {', '.join(known)}")
    batches, classes, count = scores.shape
    if attrs["output_format"] == "onnx":
        return TupleType([TensorType((batches * classes * count, 3), "int64"), TensorType((1,), "int64")])
    rows = (batches, classes * count)
    return TupleType([TensorType((*rows, 2), "int64"), TensorType(rows), TensorType((batches,), "int64")])


def _transform_type(types: Types, _attrs: Attrs) -> Type:
    scores, shifts, anchors = tensors(types)
    batches, _, count = scores.shape
    fits = same_dims(shifts.shape, (batches, 4 * count)) and same_dims(anchors.shape, (1, count, 4))
    require(fits, f"shifts [{batches}, {4 * count}] and anchors [1, {count}, 4] are needed, not {shifts}, {anchors}")
    return TupleType([TensorType((batches, count, 6)), TensorType((batches,), "int32")])


def _proposal_type(types: Types, attrs: Attrs) -> Type:
    scores, shifts, _ = tensors(types)
    anchors = len(attrs["scales"]) * len(attrs["ratios"])
    fits = scores.shape[1] == 2 * anchors and shifts.shape[1] == 4 * anchors
    require(fits, f"{2 * anchors} and {4 * anchors} channels are needed for {anchors} anchors, not {scores}, {shifts}")
    return TensorType((scores.shape[0] * attrs["rpn_post_nms_top_n"], 5))


register_host(
    "vision.get_valid_counts",
    num_inputs=2,
    type_rule=_valid_counts_type,
    attributes={"id_index": attr.integer(0), "score_index": attr.integer(1)},
)
register_host(
    "vision.non_max_suppression",
    num_inputs=5,
    type_rule=_suppression_type,
    attributes={
        "force_suppress": attr.flag(False),
        "top_k": attr.integer(-1),
        "coord_start": attr.integer(2),
        "score_index": attr.integer(1),
        "id_index": attr.integer(0),
        "return_indices": attr.flag(True),
        "invalid_to_bottom": attr.flag(False),
    },
)
register_host(
    "vision.all_class_non_max_suppression",
    num_inputs=5,
    type_rule=_all_class_type,
    attributes={"output_format": attr.text("onnx")},
)
register_host(
    "vision.multibox_transform_loc",
    num_inputs=3,
    type_rule=_transform_type,
    attributes={
        "clip": attr.flag(True),
        "threshold": attr.number(0.01),
        "variances": attr.tuple_of(attr.number(), (0.1, 0.1, 0.2, 0.2)),
    },
)
register_host(
    "vision.proposal",
    num_inputs=3,
    type_rule=_proposal_type,
    attributes={
        "scales": attr.tuple_of(attr.number()),
        "ratios": attr.tuple_of(attr.number()),
        "feature_stride": attr.integer(),
        "threshold": attr.number(),
        "rpn_pre_nms_top_n": attr.integer(),
        "rpn_post_nms_top_n": attr.integer(),
        "rpn_min_size": attr.integer(),
        "iou_loss": attr.flag(False),
    },
)


def _number(value: Any, dtype: str) -> Expr:
    return value if isinstance(value, Expr) else const(value, dtype)


def get_valid_counts(data: Expr, score_threshold: Any, id_index: int = 0, score_index: int = 1) -> Call:
    """(how many rows of [B, N, …] score above the threshold, those rows first, where they came from)."""
    threshold = _number(score_threshold, "float32")
    return call("vision.get_valid_counts", data, threshold, id_index=id_index, score_index=score_index)


def non_max_suppression(
    data: Expr,
    valid_count: Expr,
    indices: Expr,
    max_output_size: Any = -1,
    iou_threshold: Any = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Call:
    """Of boxes [B, N, …] those that overlap no better one of their kind: as rows, or as (row numbers, how many)."""
    return call(
        "vision.non_max_suppression",
        data,
        valid_count,
        indices,
        _number(max_output_size, "int32"),
        _number(iou_threshold, "float32"),
        force_suppress=force_suppress,
        top_k=top_k,
        coord_start=coord_start,
        score_index=score_index,
        id_index=id_index,
        return_indices=return_indices,
        invalid_to_bottom=invalid_to_bottom,
    )


def all_class_non_max_suppression(
    boxes: Expr,
    scores: Expr,
    max_output_boxes_per_class: Any = -1,
    iou_threshold: Any = -1.0,
    score_threshold: Any = -1.0,
    output_format: str = "onnx",
) -> Call:
    """Boxes [B, N, 4] to keep for each class of scores [B, C, N]; the formats are those of ONNX and TensorFlow."""
    limits = (
        _number(max_output_boxes_per_class, "int32"),
        _number(iou_threshold, "float32"),
        _number(score_threshold, "float32"),
    )
    return call("vision.all_class_non_max_suppression", boxes, scores, *limits, output_format=output_format)


def multibox_transform_loc(
    cls_prob: Expr,
    loc_pred: Expr,
    anchor: Expr,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
) -> Call:
    """(rows (class, score, box) [B, N, 6], how many count) of class probabilities and moved anchors."""
    attrs = {"clip": clip, "threshold": threshold, "variances": variances}
    return call("vision.multibox_transform_loc", cls_prob, loc_pred, anchor, **attrs)


def proposal(
    cls_prob: Expr,
    bbox_pred: Expr,
    im_info: Expr,
    scales: Sequence[float],
    ratios: Sequence[float],
    feature_stride: int,
    threshold: float,
    rpn_pre_nms_top_n: int,
    rpn_post_nms_top_n: int,
    rpn_min_size: int,
    iou_loss: bool = False,
) -> Call:
    """Regions [B·post_n, 5] that a region proposal network finds worth a look."""
    return call(
        "vision.proposal",
        cls_prob,
        bbox_pred,
        im_info,
        scales=scales,
        ratios=ratios,
        feature_stride=feature_stride,
        threshold=threshold,
        rpn_pre_nms_top_n=rpn_pre_nms_top_n,
        rpn_post_nms_top_n=rpn_post_nms_top_n,
        rpn_min_size=rpn_min_size,
        iou_loss=iou_loss,
    )
