"""The operators of object detection: `relay.vision.roi_align` and its kin."""

from tilewright.relay.op.vision.detection_output import detection_output
from tilewright.relay.op.vision.regions import multibox_prior, roi_align, roi_pool, yolo_reorg
from tilewright.relay.op.vision.suppression import (
    all_class_non_max_suppression,
    get_valid_counts,
    multibox_transform_loc,
    non_max_suppression,
    proposal,
)

__all__ = [
    "all_class_non_max_suppression",
    "detection_output",
    "get_valid_counts",
    "multibox_prior",
    "multibox_transform_loc",
    "non_max_suppression",
    "proposal",
    "roi_align",
    "roi_pool",
    "yolo_reorg",
]
