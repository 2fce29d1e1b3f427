"""Depthwise convolutions computed within the 1x1 convolution that reads them (see `fuse_ops`)."""

from __future__ import annotations

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.transform.simplify.make import is_call
from tilewright.topi.layout import parse_layout, transform_shape


def is_depthwise_pair(depthwise: Call, pointwise: Call, backend: GraphBackend) -> bool:
    """True if `pointwise` is a 1x1 convolution whose data are elementwise results of `depthwise`, and one kernel pays.

    Both must be blocked by channels and of float32, and the image must have for every worker its share of rows: a band
    of rows is one worker's, as all its channels meet in the 1x1 convolution. Images of 7 rows stay apart, for example.
    """
    if not is_call(depthwise, "nn.conv2d") or not is_call(pointwise, "nn.conv2d"):
        return False
    data, kernel = tensor_type_of(pointwise.args[0]), tensor_type_of(pointwise.args[1])
    layout = pointwise.attrs["data_layout"]
    if not data.is_static or not parse_layout(layout).is_blocked or kernel.ndim != 6 or kernel.shape[2:4] != (1, 1):
        return False
    plain = (tuple(pointwise.attrs["strides"]), tuple(pointwise.attrs["padding"]), pointwise.attrs["groups"])
    if plain != ((1, 1), (0, 0, 0, 0), 1) or data.dtype != "float32" or tensor_type_of(depthwise) != data:
        return False
    _, channels, height, width = transform_shape(data.shape, layout, "NCHW")
    is_depthwise = depthwise.attrs["groups"] == channels and depthwise.attrs["data_layout"] == layout
    filters = kernel.shape[0] * kernel.shape[5]
    return is_depthwise and channels > 1 and backend.fuses_depthwise(channels, filters, height, width)
