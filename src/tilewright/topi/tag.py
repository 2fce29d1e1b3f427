"""Tags of tensor operations: the kind of a `te.compute`, by which schedules know it; several are joined by commas."""

from __future__ import annotations

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"
PAD = "pad"
POOL = "pool"
CONV2D_NCHW = "conv2d_nchw"
CONV2D_NCHWC = "conv2d_NCHWc"
CONV2D_FIRST = "conv2d_first_NCHWc,conv2d_NCHWc"
DEPTHWISE_NCHW = "depthwise_conv2d_nchw"
DEPTHWISE_NCHWC = "depthwise_conv2d_NCHWc"
CONV2D_TRANSPOSE = "conv2d_transpose_nchw"
CONV2D_TRANSPOSE_NCHWC = "conv2d_transpose_NCHWc"
DENSE = "dense"
DENSE_PACK = "dense_pack"
BATCH_MATMUL = "batch_matmul"
MATMUL = "matmul"
SOFTMAX = "softmax_output"
LOG_SOFTMAX = "log_softmax_output"
LAYER_NORM = "layer_norm"
GROUP_NORM = "group_norm"
LRN = "lrn"

#: Each output element is computed from elements of the inputs with no reduction.
INJECTIVE_TAGS = (ELEMWISE, BROADCAST, INJECTIVE, PAD)


def is_injective(tag: str) -> bool:
    """True if a stage with `tag` has no reduction, so that it may be inlined into its readers."""
    return tag in INJECTIVE_TAGS
