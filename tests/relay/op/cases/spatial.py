"""Cases of convolutions and pooling along one and three axes, and of operators that are written in others."""

from __future__ import annotations

from tests.relay.op.cases.values import f, i
from tilewright.relay import op

nn = op.nn

CASES = {
    "nn.conv1d": [
        nn.conv1d(f(2, 3, 11), f(5, 3, 3), padding=1),
        nn.conv1d(f(1, 4, 12), f(6, 2, 3), 2, (0, 2), 2, groups=2),
        nn.conv1d(f(2, 11, 3), f(3, 3, 5), data_layout="NWC", kernel_layout="WIO"),
    ],
    "nn.conv1d_transpose": [
        nn.conv1d_transpose(f(2, 3, 7), f(3, 4, 4), strides=2, padding=1),
        nn.conv1d_transpose(f(1, 4, 7), f(4, 3, 3), 3, dilation=2, groups=2, output_padding=1),
    ],
    "nn.conv3d": [
        nn.conv3d(f(1, 3, 5, 6, 7), f(4, 3, 3, 3, 3), padding=1),
        nn.conv3d(f(2, 4, 6, 7, 8), f(6, 2, 2, 3, 2), (2, 1, 2), (1, 0, 1, 0, 2, 1), (2, 1, 1), groups=2),
        nn.conv3d(f(1, 4, 5, 6, 3), f(2, 2, 2, 3, 4), data_layout="NDHWC", kernel_layout="DHWIO"),
    ],
    "nn.conv3d_transpose": [
        nn.conv3d_transpose(f(1, 3, 3, 4, 5), f(3, 2, 3, 3, 3), 2, 1, output_padding=1),
        nn.conv3d_transpose(f(1, 4, 3, 4, 3), f(4, 2, 2, 3, 2), (1, 2, 1), dilation=(2, 1, 1), groups=2),
    ],
    "nn.max_pool1d": [nn.max_pool1d(f(2, 3, 11), 3, 2, padding=1), nn.max_pool1d(f(2, 11, 3), 2, layout="NWC")],
    "nn.avg_pool1d": [
        nn.avg_pool1d(f(2, 3, 11), 3, 2, padding=(1, 0), ceil_mode=True),
        nn.avg_pool1d(f(2, 3, 11), 3, 1, padding=1, count_include_pad=True),
    ],
    "nn.max_pool3d": [
        nn.max_pool3d(f(1, 2, 5, 6, 7), 2, 2),
        nn.max_pool3d(f(1, 2, 5, 6, 7), (2, 3, 3), (1, 2, 2), padding=1, ceil_mode=True),
    ],
    "nn.avg_pool3d": [
        nn.avg_pool3d(f(1, 2, 5, 6, 7), 3, 2, padding=1),
        nn.avg_pool3d(f(1, 2, 5, 6, 7), (2, 3, 2), (2, 2, 1), padding=(0, 1, 1), count_include_pad=True),
        nn.avg_pool3d(f(1, 4, 5, 6, 2), 2, layout="NDHWC"),
    ],
    "nn.adaptive_max_pool1d": [nn.adaptive_max_pool1d(f(2, 3, 11), 4)],
    "nn.adaptive_avg_pool1d": [nn.adaptive_avg_pool1d(f(2, 3, 11), 4)],
    "nn.adaptive_max_pool3d": [nn.adaptive_max_pool3d(f(1, 2, 5, 6, 4), (2, 3, 2))],
    "nn.adaptive_avg_pool3d": [
        nn.adaptive_avg_pool3d(f(1, 2, 5, 6, 7), (2, 3, 4)),
        nn.adaptive_avg_pool3d(f(1, 5, 6, 7, 2), 1, "NDHWC"),
    ],
    "nn.l2_normalize": [nn.l2_normalize(f(2, 5, 3), 1e-3), nn.l2_normalize(f(4, 6), 1e-3, (0, 1))],
    "nn.fast_softmax": [nn.fast_softmax(f(9, 101))],
    "nn.mirror_pad": [
        nn.mirror_pad(f(4, 5), ((1, 2), (0, 3))),
        nn.mirror_pad(f(4, 5), ((1, 2), (0, 3)), "REFLECT"),
    ],
    "nn.space_to_batch_nd": [
        nn.space_to_batch_nd(f(2, 4, 6, 3), (2, 3), ((0, 0), (0, 0))),
        nn.space_to_batch_nd(f(2, 5, 3), (3,), ((0, 1),), 1.5),
    ],
    "nn.batch_to_space_nd": [
        nn.batch_to_space_nd(f(12, 2, 3, 2), (2, 3), ((0, 1), (2, 1))),
        nn.batch_to_space_nd(f(6, 4), (3,), ((0, 0),)),
    ],
    "nn.fifo_buffer": [nn.fifo_buffer(f(2, 3), f(2, 7), 1), nn.fifo_buffer(f(4, 3), f(4, 3), 0)],
    "nn.contrib_conv2d_NCHWc": [
        nn.contrib_conv2d_NCHWc(
            f(1, 2, 9, 11, 16), f(3, 2, 3, 3, 16, 16), padding=1, data_layout="NCHW16c", kernel_layout="OIHW16i16o",
            out_layout="NCHW16c",
        )
    ],
    "nn.contrib_depthwise_conv2d_NCHWc": [
        nn.contrib_depthwise_conv2d_NCHWc(
            f(1, 2, 9, 11, 8), f(2, 1, 3, 3, 1, 8), padding=1, groups=16, data_layout="NCHW8c",
            kernel_layout="OIHW1i8o", out_layout="NCHW8c",
        )
    ],
    "nn.contrib_dense_pack": [nn.contrib_dense_pack(f(5, 37), f(2, 37, 16), "NC16n")],
    "nn.contrib_conv2d_gemm_weight_transform": [nn.contrib_conv2d_gemm_weight_transform(f(3, 3, 5, 7), 4, 16)],
    "nn.contrib_conv2d_gemm_without_weight_transform": [
        nn.contrib_conv2d_gemm_without_weight_transform(f(1, 6, 7, 5), f(2, 3, 4, 16), 7, 3, padding=1)
    ],
    "nn.bitpack": [
        nn.bitpack(i(2, 64, 3, high=8, dtype="int32"), 3),
        nn.bitpack(i(3, 16, high=4, dtype="uint8"), 2, 1, 0, "uint8"),
    ],
    "nn.bitserial_dense": [
        nn.bitserial_dense(i(3, 17, high=4, dtype="int32"), i(5, 17, high=2, dtype="int32"), 2),
        nn.bitserial_dense(i(3, 17, high=4, dtype="int32"), i(5, 17, high=4, dtype="int32"), 2, 2, unipolar=False),
    ],
    "nn.bitserial_conv2d": [
        nn.bitserial_conv2d(i(1, 3, 6, 7, high=4, dtype="int32"), i(5, 3, 3, 3, high=2, dtype="int32"), 1, 1, 2, 1)
    ],
}  # fmt: skip
