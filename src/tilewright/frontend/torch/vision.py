"""The operators that torchvision adds: which boxes to keep, means over regions, convolutions with moved taps."""

from __future__ import annotations

from tilewright.frontend.idioms import cast, index_axis, like, reshape, shape_of, slice_axis
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import TensorType
from tilewright.relay.op.onnx_host import host_call


@converts("torchvision.nms")
def convert_nms(node: TorchNode) -> Expr:
    """The numbers of the boxes [N, 4] that overlap no better one by more than a part, best first."""
    boxes, scores = node["dets"], node["scores"]
    count = shape_of(scores)[0]
    limits = [node.as_tensor(count, "int64"), op.cast(like(node["iou_threshold"], boxes), dtype="float32")]
    rows = host_call(
        "NonMaxSuppression",
        [op.expand_dims(boxes, axis=0), op.expand_dims(scores, axis=0, num_newaxis=2), *limits],
        TensorType((AnyDim(), 3), "int64"),
    )
    return index_axis(rows, 1, 2)


@converts("torchvision.roi_align")
def convert_roi_align(node: TorchNode) -> Expr:
    """Means of samples in the bins of regions [R, 5]; of as many regions as a run finds, on the host."""
    data, rois = node["input"], node["rois"]
    size, scale = (node["pooled_height"], node["pooled_width"]), float(node["spatial_scale"])
    ratio, aligned = int(node["sampling_ratio"]), bool(node["aligned"])
    if not any(isinstance(extent, AnyDim) for extent in (*shape_of(rois), *shape_of(data))):
        return op.vision.roi_align(data, rois, size, scale, ratio, aligned=aligned)
    options = {"output_height": size[0], "output_width": size[1], "sampling_ratio": max(ratio, 0)}
    mode = "half_pixel" if aligned else "output_half_pixel"
    return host_call(
        "RoiAlign",
        [data, slice_axis(rois, 1, 1, 5), cast(index_axis(rois, 1, 0), "int64")],
        TensorType((shape_of(rois)[0], shape_of(data)[1], *size), node.dtype),
        coordinate_transformation_mode=mode, spatial_scale=scale, mode="avg", **options,
    )  # fmt: skip


@converts("torchvision.deform_conv2d")
def convert_deform_conv2d(node: TorchNode) -> Expr:
    """A convolution whose taps are moved by offsets."""
    if node["use_mask"]:
        node.unsupported("a mask on the taps")
    pairs = {
        name: (node[f"{short}_h"], node[f"{short}_w"])
        for name, short in (("strides", "stride"), ("padding", "pad"), ("dilation", "dilation"))
    }
    made = op.nn.deformable_conv2d(
        node["input"], node["offset"], node["weight"], **pairs,
        deformable_groups=node["offset_groups"], groups=node["groups"],
    )  # fmt: skip
    return op.add(made, reshape(node["bias"], (1, shape_of(node["bias"])[0], 1, 1)))
