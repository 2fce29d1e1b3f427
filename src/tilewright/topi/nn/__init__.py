"""Computes of neural network operators."""

from tilewright.topi.nn.activation import bias_add, leaky_relu, prelu, relu
from tilewright.topi.nn.attention import attention
from tilewright.topi.nn.attention_backward import attention_backward
from tilewright.topi.nn.bitserial import bitserial_conv2d_pack, bitserial_dense_pack
from tilewright.topi.nn.conv2d import conv2d_nchw, depthwise_conv2d_nchw
from tilewright.topi.nn.conv2d_backward_weight import conv2d_backward_weight
from tilewright.topi.nn.conv2d_blocked import conv2d_first_NCHWc, conv2d_NCHWc, depthwise_conv2d_NCHWc
from tilewright.topi.nn.conv2d_grouped import grouped_conv2d_NCHWc
from tilewright.topi.nn.conv2d_nhwc import conv2d_nhwc, conv2d_nhwc_blocks, depthwise_conv2d_nhwc
from tilewright.topi.nn.conv2d_transpose import conv2d_transpose_nchw, conv2d_transpose_NCHWc, dilate
from tilewright.topi.nn.conv2d_winograd import (
    conv2d_winograd_nchw,
    conv2d_winograd_NCHWc,
    conv2d_winograd_weight_transform,
)
from tilewright.topi.nn.dense import batch_matmul, dense, dense_blocks, dense_pack, matmul
from tilewright.topi.nn.dense_blockwise import dense_blockwise, dense_blockwise_pack, dense_of_table_pack
from tilewright.topi.nn.dot_product import batch_matmul_dot, conv2d_dot_NCHWc, dense_dot
from tilewright.topi.nn.narrow_attention import narrow_attention
from tilewright.topi.nn.normalization import batch_norm, group_norm, layer_norm, lrn
from tilewright.topi.nn.pad import mirror_pad, pad
from tilewright.topi.nn.pooling import adaptive_pool2d, global_pool2d, max_pool2d_indices, pool2d
from tilewright.topi.nn.pooling_grad import max_pool2d_grad, max_pool2d_grad_at
from tilewright.topi.nn.recurrent import recurrent
from tilewright.topi.nn.softmax import log_softmax, softmax

__all__ = [
    "adaptive_pool2d",
    "attention",
    "attention_backward",
    "batch_matmul",
    "batch_matmul_dot",
    "batch_norm",
    "bias_add",
    "bitserial_conv2d_pack",
    "bitserial_dense_pack",
    "conv2d_NCHWc",
    "conv2d_backward_weight",
    "conv2d_dot_NCHWc",
    "conv2d_first_NCHWc",
    "conv2d_nchw",
    "conv2d_nhwc",
    "conv2d_nhwc_blocks",
    "conv2d_transpose_NCHWc",
    "conv2d_transpose_nchw",
    "conv2d_winograd_NCHWc",
    "conv2d_winograd_nchw",
    "conv2d_winograd_weight_transform",
    "dense",
    "dense_blocks",
    "dense_blockwise",
    "dense_blockwise_pack",
    "dense_dot",
    "dense_of_table_pack",
    "dense_pack",
    "depthwise_conv2d_NCHWc",
    "depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc",
    "dilate",
    "global_pool2d",
    "group_norm",
    "grouped_conv2d_NCHWc",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "lrn",
    "matmul",
    "max_pool2d_grad",
    "max_pool2d_grad_at",
    "max_pool2d_indices",
    "mirror_pad",
    "narrow_attention",
    "pad",
    "pool2d",
    "prelu",
    "recurrent",
    "relu",
    "softmax",
]
