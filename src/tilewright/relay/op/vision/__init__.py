"""The operators of object detection: `relay.vision.roi_align` and its kin."""

from tilewright.relay.op.vision.regions import multibox_prior, roi_align, roi_pool, yolo_reorg

__all__ = ["multibox_prior", "roi_align", "roi_pool", "yolo_reorg"]
