"""Object detection: anchors, what is kept of boxes, means and maxima over regions.

Of rows that suppression takes away MXNet marks the class and leaves them where they are; here they are -1 throughout
and stand behind the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.idioms import concatenate, constant, like, slice_axis
from tilewright.frontend.mxnet.node import MxnetNode, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, TupleGetItem


def _several(node: MxnetNode, name: str, usual: Sequence[float]) -> tuple[float, ...]:
    value = node.attr(name, tuple(usual))
    return tuple(float(one) for one in (value if isinstance(value, tuple | list) else (value,)))


@converts("_contrib_MultiBoxPrior")
def convert_anchors(node: MxnetNode, x: Expr, clip: bool = False) -> Expr:
    """[1, anchors, 4]: corners of anchors as fractions of the image; they depend on the shape alone."""
    return op.vision.multibox_prior(
        x, sizes=_several(node, "sizes", (1.0,)), ratios=_several(node, "ratios", (1.0,)),
        steps=_several(node, "steps", (-1.0, -1.0)), offsets=_several(node, "offsets", (0.5, 0.5)),
        clip=clip,
    )  # fmt: skip


@converts("_contrib_MultiBoxDetection")
def convert_detection(node: MxnetNode) -> Expr:
    """[batch, anchors, 6]: class, score and corners of moved anchors, best first."""
    if int(node.attr("background_id", 0)) != 0:
        node.unsupported(f"background_id={node.attr('background_id')} is not supported")
    moved = op.vision.multibox_transform_loc(
        node[0], node[1], node[2], clip=node.flag("clip", True), threshold=float(node.attr("threshold", 0.01)),
        variances=_several(node, "variances", (0.1, 0.1, 0.2, 0.2)),
    )  # fmt: skip
    rows = TupleGetItem(moved, 0)
    batch, count = node.shape(rows)[:2]
    positions = constant([list(range(count))] * batch, "int32")
    return op.vision.non_max_suppression(
        rows, TupleGetItem(moved, 1), positions, iou_threshold=float(node.attr("nms_threshold", 0.5)),
        force_suppress=node.flag("force_suppress"), top_k=int(node.attr("nms_topk", -1)), coord_start=2, score_index=1,
        id_index=0, return_indices=False, invalid_to_bottom=True,
    )  # fmt: skip


@converts("_contrib_box_nms", "_contrib_box_non_maximum_suppression")
def convert_suppression(node: MxnetNode) -> Expr:
    """Rows of which none overlaps a better one of its class."""
    given, written = (str(node.attr(name, "corner")) for name in ("in_format", "out_format"))
    if int(node.attr("background_id", -1)) != -1 or given != written:
        node.unsupported("a class of the background, or boxes that come out as others than they come in, are not")
    first, kind = int(node.attr("coord_start", 2)), int(node.attr("id_index", -1))
    score, rows = int(node.attr("score_index", 1)), node[0]
    if node.rank() != 3:
        node.unsupported(f"rows of {node.rank()} axes are not supported")
    if given == "center":
        rows = _with_boxes(node, rows, first, to_corners=True)
    counted = op.vision.get_valid_counts(
        rows, score_threshold=float(node.attr("valid_thresh", 0.0)), id_index=kind, score_index=score
    )
    made: Expr = op.vision.non_max_suppression(
        TupleGetItem(counted, 1), TupleGetItem(counted, 0), TupleGetItem(counted, 2),
        iou_threshold=float(node.attr("overlap_thresh", 0.5)), force_suppress=node.flag("force_suppress"),
        top_k=int(node.attr("topk", -1)), coord_start=first, score_index=score, id_index=kind, return_indices=False,
        invalid_to_bottom=True,
    )  # fmt: skip
    if given == "corner":
        return made
    kept = slice_axis(made, 2, score, score + 1) >= 0.0
    return op.where(kept, _with_boxes(node, made, first, to_corners=False), made)


def _with_boxes(node: MxnetNode, rows: Expr, first: int, to_corners: bool) -> Expr:
    """Rows whose boxes were (centre, size) as corners, or the other way round."""
    low, high = slice_axis(rows, 2, first, first + 2), slice_axis(rows, 2, first + 2, first + 4)
    half = like(0.5, rows)
    if to_corners:
        reach = high * half
        boxes = [low - reach, low + reach]
    else:
        boxes = [(low + high) * half, high - low]
    width = node.shape(rows)[2]
    parts = [(0, first), (first + 4, width)]
    before, behind = ([slice_axis(rows, 2, a, b)] if a < b else [] for a, b in parts)
    return concatenate([*before, *boxes, *behind], 2)


@converts("_contrib_ROIAlign")
def convert_roi_align(
    node: MxnetNode, x: Expr, y: Expr, spatial_scale: float, position_sensitive: bool = False, aligned: bool = False,
    sample_ratio: int = -1,
) -> Expr:  # fmt: skip
    """Means of interpolated samples on a grid in each region."""
    if position_sensitive or aligned:
        node.unsupported("position_sensitive and aligned are not supported")
    size = tuple(node.numbers("pooled_size"))
    return op.vision.roi_align(x, y, pooled_size=size, spatial_scale=spatial_scale, sample_ratio=sample_ratio)
