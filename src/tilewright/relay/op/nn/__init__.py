"""Neural network operators: `relay.nn.conv2d` and its kin."""

from tilewright.relay.op.data_dependent import sparse_transpose
from tilewright.relay.op.nn import internal
from tilewright.relay.op.nn.activation import (
    bias_add,
    gelu,
    gelu_tanh,
    leaky_relu,
    mish,
    pad,
    prelu,
    relu,
    silu,
)
from tilewright.relay.op.nn.attention import (
    attention,
)
from tilewright.relay.op.nn.backward import avg_pool2d_grad, conv2d_backward_weight, dilate, max_pool2d_grad
from tilewright.relay.op.nn.bits import bitpack, bitserial_conv2d, bitserial_dense
from tilewright.relay.op.nn.bitserial import contrib_bitserial_conv2d, contrib_bitserial_dense
from tilewright.relay.op.nn.byte_conv import (
    contrib_conv2d_bytes,
    contrib_dense_bytes,
    contrib_depthwise_bytes,
    contrib_fixed_point,
)
from tilewright.relay.op.nn.byte_layers import contrib_add_scaled, contrib_conv2d_scaled, contrib_depthwise_scaled
from tilewright.relay.op.nn.composed import (
    batch_to_space_nd,
    contrib_conv2d_gemm_weight_transform,
    contrib_conv2d_gemm_without_weight_transform,
    contrib_conv2d_NCHWc,
    contrib_dense_pack,
    contrib_depthwise_conv2d_NCHWc,
    fast_softmax,
    fifo_buffer,
    l2_normalize,
    mirror_pad,
    space_to_batch_nd,
)
from tilewright.relay.op.nn.convolution import (
    conv2d,
    conv2d_transpose,
)
from tilewright.relay.op.nn.dense import (
    batch_matmul,
    dense,
    matmul,
)
from tilewright.relay.op.nn.dense_blockwise import dense_blockwise
from tilewright.relay.op.nn.displaced import correlation, deformable_conv2d
from tilewright.relay.op.nn.dot_product import (
    contrib_batch_matmul_int8,
    contrib_conv2d_bfloat16,
    contrib_conv2d_int8,
    contrib_dense_bfloat16,
    contrib_dense_float16,
    contrib_dense_int8,
    contrib_dense_int8_ordered,
)
from tilewright.relay.op.nn.loss import cross_entropy, cross_entropy_with_logits, nll_loss
from tilewright.relay.op.nn.normalization import (
    batch_flatten,
    batch_norm,
    depth_to_space,
    dropout,
    group_norm,
    instance_norm,
    layer_norm,
    log_softmax,
    lrn,
    softmax,
    space_to_depth,
)
from tilewright.relay.op.nn.pooling import (
    adaptive_avg_pool2d,
    adaptive_max_pool2d,
    avg_pool2d,
    global_avg_pool2d,
    global_max_pool2d,
    max_pool2d,
)
from tilewright.relay.op.nn.recurrent import (
    gru,
    lstm,
    rnn,
)
from tilewright.relay.op.nn.sparse import sparse_add, sparse_conv2d, sparse_dense
from tilewright.relay.op.nn.spatial import (
    adaptive_avg_pool1d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool3d,
    conv1d,
    conv1d_transpose,
    conv3d,
    conv3d_transpose,
    max_pool1d,
    max_pool3d,
)
from tilewright.relay.op.nn.straight_through import straight_through
from tilewright.relay.op.nn.upsampling import upsampling, upsampling3d
from tilewright.relay.op.nn.winograd import (
    contrib_conv2d_winograd_weight_transform,
    contrib_conv2d_winograd_without_weight_transform,
)
from tilewright.relay.op.nn.winograd_weights import (
    contrib_conv2d_winograd_nnpack_weight_transform,
    contrib_conv3d_winograd_weight_transform,
    contrib_conv3d_winograd_without_weight_transform,
)

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "attention",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool2d_grad",
    "avg_pool3d",
    "batch_flatten",
    "batch_matmul",
    "batch_norm",
    "batch_to_space_nd",
    "bias_add",
    "bitpack",
    "bitserial_conv2d",
    "bitserial_dense",
    "contrib_add_scaled",
    "contrib_batch_matmul_int8",
    "contrib_bitserial_conv2d",
    "contrib_bitserial_dense",
    "contrib_conv2d_NCHWc",
    "contrib_conv2d_bfloat16",
    "contrib_conv2d_bytes",
    "contrib_conv2d_gemm_weight_transform",
    "contrib_conv2d_gemm_without_weight_transform",
    "contrib_conv2d_int8",
    "contrib_conv2d_scaled",
    "contrib_conv2d_winograd_nnpack_weight_transform",
    "contrib_conv2d_winograd_weight_transform",
    "contrib_conv2d_winograd_without_weight_transform",
    "contrib_conv3d_winograd_weight_transform",
    "contrib_conv3d_winograd_without_weight_transform",
    "contrib_dense_bfloat16",
    "contrib_dense_bytes",
    "contrib_dense_float16",
    "contrib_dense_int8",
    "contrib_dense_int8_ordered",
    "contrib_dense_pack",
    "contrib_depthwise_bytes",
    "contrib_depthwise_conv2d_NCHWc",
    "contrib_depthwise_scaled",
    "contrib_fixed_point",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_backward_weight",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "correlation",
    "cross_entropy",
    "cross_entropy_with_logits",
    "deformable_conv2d",
    "dense",
    "dense_blockwise",
    "depth_to_space",
    "dilate",
    "dropout",
    "fast_softmax",
    "fifo_buffer",
    "gelu",
    "gelu_tanh",
    "global_avg_pool2d",
    "global_max_pool2d",
    "group_norm",
    "gru",
    "instance_norm",
    "internal",
    "l2_normalize",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "lrn",
    "lstm",
    "matmul",
    "max_pool1d",
    "max_pool2d",
    "max_pool2d_grad",
    "max_pool3d",
    "mirror_pad",
    "mish",
    "nll_loss",
    "pad",
    "prelu",
    "relu",
    "rnn",
    "silu",
    "softmax",
    "space_to_batch_nd",
    "space_to_depth",
    "sparse_add",
    "sparse_conv2d",
    "sparse_dense",
    "sparse_transpose",
    "straight_through",
    "upsampling",
    "upsampling3d",
]
