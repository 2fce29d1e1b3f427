"""The last step of single-shot detectors. What it keeps depends on all that it kept before, so it runs on the host."""

from __future__ import annotations

from typing import Any as Anything

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.type import Any, TensorType, Type
from tilewright.relay.op.common import Types, call, require, tensors
from tilewright.relay.op.host import register_host

_CODES = ("CORNER", "CENTER_SIZE", "CORNER_SIZE")


def _output_type(types: Types, attrs: Attrs) -> Type:
    shifts, scores, anchors = tensors(types)
    classes = attrs["num_classes"]
    require(classes > 0, f"num_classes={classes}")
    require(attrs["code_type"] in _CODES, f"code_type {attrs['code_type']!r}; known: {', '.join(_CODES)}")
    require(anchors.ndim == 3, f"anchors [1, 1 or 2, 4 * count] are needed, not {anchors}")
    count = anchors.shape[2]
    if isinstance(count, int):
        locations = 1 if attrs["share_location"] else classes
        require(count % 4 == 0, f"anchors have four numbers each, not {anchors}")
        for given, wanted in ((shifts, count * locations), (scores, count // 4 * classes)):
            size = given.shape[1:]
            fits = not all(isinstance(extent, int) for extent in size) or _product(size) == wanted
            require(fits, f"{wanted} numbers are needed for {count // 4} anchors, not {given}")
    rows = Any() if attrs["keep_top_k"] < 0 else shifts.shape[0] * attrs["keep_top_k"]
    return TensorType((1, 1, rows, 7), "float32")


def _product(extents: Anything) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total


register_host(
    "vision.detection_output",
    num_inputs=3,
    type_rule=_output_type,
    attributes={
        "num_classes": attr.integer(),
        "share_location": attr.flag(True),
        "background": attr.integer(0),
        "threshold": attr.number(0.0),
        "iou_threshold": attr.number(0.3),
        "top_k": attr.integer(-1),
        "eta": attr.number(1.0),
        "keep_top_k": attr.integer(-1),
        "code_type": attr.text("CORNER"),
        "variance_encoded": attr.flag(False),
    },
)


def detection_output(
    shifts: Expr,
    scores: Expr,
    anchors: Expr,
    num_classes: int,
    share_location: bool = True,
    background: int = 0,
    threshold: float = 0.0,
    iou_threshold: float = 0.3,
    top_k: int = -1,
    eta: float = 1.0,
    keep_top_k: int = -1,
    code_type: str = "CORNER",
    variance_encoded: bool = False,
) -> Call:
    """[1, 1, rows, 7]: rows (item, class, score, left, top, right, bottom) of what a single-shot detector predicts.

    `anchors` [1, 2, 4 * count] are corners and variances; `shifts` [B, 4 * count] and `scores` [B, count * classes]
    belong to them. Of each class but `background` those above `threshold` are kept that overlap no better one by more
    than `iou_threshold`, of all classes together the best `keep_top_k`: then there are as many rows for each item,
    zeros behind what is kept.
    """
    return call(
        "vision.detection_output", shifts, scores, anchors, num_classes=num_classes, share_location=share_location,
        background=background, threshold=threshold, iou_threshold=iou_threshold, top_k=top_k, eta=eta,
        keep_top_k=keep_top_k, code_type=code_type, variance_encoded=variance_encoded,
    )  # fmt: skip
