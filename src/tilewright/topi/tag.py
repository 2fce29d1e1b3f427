"""Tags of tensor operations: the kind of a `te.compute`, by which schedules know it; several are joined by commas."""

from __future__ import annotations

from tilewright.te.tag import BROADCAST as BROADCAST
from tilewright.te.tag import ELEMWISE as ELEMWISE

INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
#: A reduction to partial results that another one puts together.
PARTIAL = "partial"
COMM_REDUCE_IDX = "comm_reduce_idx"
PAD = "pad"
POOL = "pool"
#: The columns of an image interpolated, before its rows are.
RESIZED_COLUMNS = "resized_columns,injective"
CONV2D_NCHW = "conv2d_nchw"
CONV2D_1X1_NCHW = "conv2d_1x1_nchw"
CONV2D_NHWC = "conv2d_nhwc"
CONV2D_NHWC_BLOCKS = "conv2d_nhwc_blocks"
DEPTHWISE_NHWC = "depthwise_conv2d_nhwc"
CONV2D_NCHWC = "conv2d_NCHWc"
GROUPED_CONV2D_NCHWC = "grouped_conv2d_NCHWc"
CONV2D_FIRST = "conv2d_first_NCHWc,conv2d_NCHWc"
DEPTHWISE_NCHW = "depthwise_conv2d_nchw"
DEPTHWISE_NCHWC = "depthwise_conv2d_NCHWc"
CONV2D_WINOGRAD = "conv2d_winograd_NCHWc"
CONV2D_WINOGRAD_NCHW = "conv2d_winograd_nchw"
WINOGRAD_PRODUCT = "winograd_product"
CONV2D_TRANSPOSE = "conv2d_transpose_nchw"
CONV2D_BACKWARD_WEIGHT = "conv2d_backward_weight"
CONV2D_TRANSPOSE_NCHWC = "conv2d_transpose_NCHWc"
DENSE = "dense"
DENSE_PACK = "dense_pack"
DENSE_BLOCKS = "dense_blocks"
BATCH_MATMUL = "batch_matmul"
#: Sums of dot products of four bytes: of matrices in panels, of images.
DENSE_DOT = "dense_dot"
IN_ORDER = "in_order"
CONV2D_DOT = "conv2d_dot_NCHWc"
#: Convolutions of bytes for processors without vectors, and what their windows hold.
BYTE_CONV2D = "byte_conv2d"
BYTE_DEPTHWISE = "byte_depthwise_conv2d"
BYTE_WINDOWS = "byte_windows"
#: Layers of bytes from bytes to bytes.
BYTE_LAYER = "byte_layer"
#: Products with weights of a few bits: the result, its sums of integers, the integers of a block, their range.
DENSE_BLOCKWISE = "dense_blockwise"
BLOCKWISE_SUMS = "blockwise_sums"
BLOCK_CODES = "block_codes"
BLOCK_RANGE = "block_range"
#: Products of few bits: the result, its sums in bytes; the data as bytes, planes of bits, tables, sums of it.
BITSERIAL = "bitserial_conv2d"
BIT_BYTES = "bit_bytes"
BIT_CODES = "bit_codes"
BIT_PLANES = "bit_planes"
BIT_TABLES = "bit_tables"
BIT_PIXELS = "bit_pixels"
BIT_WINDOWS = "bit_windows"
MATMUL = "matmul"
SOFTMAX = "softmax_output"
LOG_SOFTMAX = "log_softmax_output"
LAYER_NORM = "layer_norm"
#: Loops written by hand.
EXTERN = "extern"
#: Loops written by hand that devices have kernels of their own for: positions in order, running sums and products.
SORT = "sort,extern"
RUNNING = "running,extern"
ATTENTION = "attention"
ATTENTION_SCORES = "attention_scores"
ATTENTION_BACKWARD = "attention_backward"
#: Attention of operands that are rounded to 16 bits.
NARROW_ATTENTION = "narrow_attention"
RECURRENT = "recurrent"
RECURRENT_CELL = "recurrent_cell"
RECURRENT_PRODUCT = "recurrent_product"
#: The state of a step as bytes, and the numbers that this takes.
RECURRENT_CODES = "recurrent_codes"
RECURRENT_RANGE = "recurrent_range"
GROUP_NORM = "group_norm"
LRN = "lrn"


def is_injective(tag: str) -> bool:
    """True for the tags of operations whose elements each depend on one element of every input."""
    return tag.split(",")[0] in (ELEMWISE, BROADCAST, INJECTIVE)
