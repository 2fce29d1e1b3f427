"""Computes of image operators."""

from tilewright.topi.image.resize import resize2d
from tilewright.topi.image.sample import (
    correlation,
    crop_and_resize,
    deformable_conv2d,
    dilation2d,
    grid_sample,
    roi_align,
    roi_pool,
)

__all__ = [
    "correlation",
    "crop_and_resize",
    "deformable_conv2d",
    "dilation2d",
    "grid_sample",
    "resize2d",
    "roi_align",
    "roi_pool",
]
