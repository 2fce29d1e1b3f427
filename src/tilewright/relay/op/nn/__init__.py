"""Neural network operators: `relay.nn.conv2d` and its kin."""

from tilewright.relay.op.nn.activation import (
    bias_add,
    leaky_relu,
    pad,
    prelu,
    relu,
)
from tilewright.relay.op.nn.attention import (
    attention,
)
from tilewright.relay.op.nn.backward import avg_pool2d_grad, conv2d_backward_weight, dilate, max_pool2d_grad
from tilewright.relay.op.nn.convolution import (
    conv1d,
    conv2d,
    conv2d_transpose,
)
from tilewright.relay.op.nn.dense import (
    batch_matmul,
    dense,
    matmul,
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
from tilewright.relay.op.nn.winograd import (
    contrib_conv2d_winograd_weight_transform,
    contrib_conv2d_winograd_without_weight_transform,
)

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_max_pool2d",
    "attention",
    "avg_pool2d",
    "avg_pool2d_grad",
    "batch_flatten",
    "batch_matmul",
    "batch_norm",
    "bias_add",
    "contrib_conv2d_winograd_weight_transform",
    "contrib_conv2d_winograd_without_weight_transform",
    "conv1d",
    "conv2d",
    "conv2d_backward_weight",
    "conv2d_transpose",
    "cross_entropy",
    "cross_entropy_with_logits",
    "dense",
    "depth_to_space",
    "dilate",
    "dropout",
    "global_avg_pool2d",
    "global_max_pool2d",
    "group_norm",
    "gru",
    "instance_norm",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "lrn",
    "lstm",
    "matmul",
    "max_pool2d",
    "max_pool2d_grad",
    "nll_loss",
    "pad",
    "prelu",
    "relu",
    "rnn",
    "softmax",
    "space_to_depth",
]
