"""Layers of object detection: anchors, what is kept of boxes, pooling of regions.

SSD: https://arxiv.org/abs/1512.02325. Anchors depend on shapes alone and are constants of the module.
"""

from __future__ import annotations

import math

import numpy as np

from tilewright.frontend.caffe.node import CaffeNode, converts
from tilewright.frontend.idioms import constant
from tilewright.frontend.messages import Record
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("PriorBox")
def convert_prior_box(node: CaffeNode) -> Expr:
    """[1, 2, cells * anchors * 4]: the corners of anchors as fractions of the image, and the variances of each."""
    param = node.layer.prior_box_param
    (height, width), image = node.fixed(0)[2:], node.fixed(1)[2:]
    image = (param.img_h or param.img_size or image[0], param.img_w or param.img_size or image[1])
    sizes = _sizes(node, param)
    steps = [getattr(param, f"step_{axis}") or param.step or image[position] / (height, width)[position]
             for position, axis in enumerate("hw")]  # fmt: skip
    rows = (np.arange(height) + param.offset) * steps[0]
    columns = (np.arange(width) + param.offset) * steps[1]
    centres = np.stack(np.meshgrid(columns, rows), -1)[:, :, None, :]  # [height, width, 1, x and y]
    half = np.array(sizes)[None, None] / 2
    boxes = np.concatenate([centres - half, centres + half], -1) / np.array([image[1], image[0]] * 2)
    if param.clip:
        boxes = np.clip(boxes, 0, 1)
    variances = [float(value) for value in param.variance] or [0.1]
    if len(variances) not in (1, 4):
        node.bad(f"{len(variances)} variances")
    spread = np.broadcast_to(np.array(variances * (4 // len(variances))), boxes.shape)
    return constant(np.stack([boxes.reshape(-1), spread.reshape(-1)])[None])


def _sizes(node: CaffeNode, param: Record) -> list[tuple[float, float]]:
    """Width and height of each anchor of a cell."""
    ratios = [1.0]
    for ratio in map(float, param.aspect_ratio):
        if ratio <= 0:
            node.bad(f"aspect_ratio={ratio}")
        for one in (ratio, 1 / ratio) if param.flip else (ratio,):
            if all(abs(one - known) > 1e-6 for known in ratios):
                ratios.append(one)
    smallest, largest = [float(v) for v in param.min_size], [float(v) for v in param.max_size]
    if not smallest or (largest and len(largest) != len(smallest)):
        node.bad(f"min_size={smallest} and max_size={largest}")
    found = []
    for index, size in enumerate(smallest):
        found.append((size, size))
        if largest:
            mean = math.sqrt(size * largest[index])
            found.append((mean, mean))
        found += [(size * math.sqrt(ratio), size / math.sqrt(ratio)) for ratio in ratios[1:]]
    return found


@converts("DetectionOutput")
def convert_detection_output(node: CaffeNode) -> Expr:
    """[1, 1, rows, 7]: item of the batch, class, score and corners of boxes; zeros behind those that are kept."""
    param = node.layer.detection_output_param
    nms = param.nms_param
    return op.vision.detection_output(
        node[0], node[1], node[2], num_classes=int(param.num_classes), share_location=param.share_location,
        background=param.background_label_id, iou_threshold=nms.nms_threshold, eta=nms.eta,
        threshold=param.confidence_threshold if param.has("confidence_threshold") else -3.4e38,
        top_k=nms.top_k if nms.has("top_k") else -1, keep_top_k=param.keep_top_k, code_type=param.code_type,
        variance_encoded=param.variance_encoded_in_target,
    )  # fmt: skip


@converts("ROIPooling")
def convert_roi_pooling(node: CaffeNode) -> Expr:
    """Maxima over a grid in each region."""
    param = node.layer.roi_pooling_param
    size = (int(param.pooled_h), int(param.pooled_w))
    return op.vision.roi_pool(node[0], node[1], pooled_size=size, spatial_scale=param.spatial_scale)
