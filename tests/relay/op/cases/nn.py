"""Cases of neural network operators."""

from __future__ import annotations

from tests.relay.op.cases.values import f, short
from tilewright.relay import op

CASES = {
    "nn.relu": [op.nn.relu(f(90, 101))],
    "nn.leaky_relu": [op.nn.leaky_relu(f(4, 19), 0.1)],
    **{f"nn.{name}": [getattr(op.nn, name)(f(4, 19))] for name in ("silu", "mish", "gelu", "gelu_tanh")},
    "nn.prelu": [op.nn.prelu(f(2, 4, 19), f(4))],
    "nn.bias_add": [op.nn.bias_add(f(2, 4, 5, 19), f(4)), op.nn.bias_add(f(1, 2, 5, 5, 8), f(2, 8))],
    "nn.pad": [
        op.nn.pad(f(3, 19), ((1, 2), (0, 3)), 1.5),
        op.nn.pad(f(3, 19), ((1, 2), (2, 3)), pad_mode="reflect"),
        op.nn.pad(f(3, 19), ((1, 2), (0, 3)), pad_mode="edge"),
    ],
    "nn.conv2d": [
        op.nn.conv2d(f(1, 3, 9, 11), f(5, 3, 3, 3), padding=1),
        op.nn.conv2d(f(2, 4, 9, 11), f(6, 2, 3, 2), groups=2, strides=(2, 1), dilation=(1, 2)),
        op.nn.conv2d(f(1, 6, 9, 11), f(6, 1, 3, 3), groups=6, padding=1),
        op.nn.conv2d(
            f(1, 2, 9, 11, 16),
            f(3, 2, 3, 3, 16, 16),
            padding=1,
            strides=2,
            data_layout="NCHW16c",
            kernel_layout="OIHW16i16o",
            out_layout="NCHW16c",
        ),
        op.nn.conv2d(
            f(1, 9, 11, 3), f(2, 3, 2, 3, 4), padding=1, strides=2, data_layout="NHWC", kernel_layout="OHWI4o"
        ),
        op.nn.conv2d(
            f(1, 9, 1, 3), f(2, 3, 1, 3, 4), strides=(2, 1), data_layout="NHWC", kernel_layout="OHWI4o"
        ),
        op.nn.conv2d(
            f(1, 9, 11, 6), f(3, 3, 1, 6), padding=1, groups=6, data_layout="NHWC", kernel_layout="HWIO"
        ),
        op.nn.conv2d(f(1, 3, 20, 23), f(2, 3, 5, 5, 16), kernel_layout="OIHW16o", out_layout="NCHW16c", padding=2),
        op.nn.conv2d(
            f(1, 2, 9, 11, 8),
            f(2, 1, 3, 3, 1, 8),
            padding=1,
            groups=16,
            data_layout="NCHW8c",
            kernel_layout="OIHW1i8o",
            out_layout="NCHW8c",
        ),
    ],
    "nn.conv2d_transpose": [
        op.nn.conv2d_transpose(f(1, 3, 5, 7), f(3, 4, 4, 4), strides=2, padding=1),
        op.nn.conv2d_transpose(f(1, 4, 5, 7), f(4, 3, 3, 2), strides=(3, 1), groups=2, output_padding=(1, 0)),
        op.nn.conv2d_transpose(
            f(1, 5, 7, 3), f(4, 2, 4, 3), strides=2, padding=1, data_layout="NHWC", kernel_layout="HWOI"
        ),
    ],
    "nn.contrib_conv2d_winograd_weight_transform": [
        op.nn.contrib_conv2d_winograd_weight_transform(f(24, 5, 3, 3), 4, block=8),
        op.nn.contrib_conv2d_winograd_weight_transform(f(1, 2, 3, 3, 8, 16), 2, "OIHW8i16o", 16),
    ],
    "nn.contrib_conv2d_winograd_without_weight_transform": [
        op.nn.contrib_conv2d_winograd_without_weight_transform(f(2, 2, 9, 6, 16), f(3, 4, 4, 32, 16), 2, 1),
        op.nn.contrib_conv2d_winograd_without_weight_transform(
            short(2, 2, 9, 6, 16), short(3, 4, 4, 16, 16, 2), 2, 1
        ),
        op.nn.contrib_conv2d_winograd_without_weight_transform(
            f(1, 2, 9, 11, 8, low=-0.1, high=0.1), f(2, 6, 6, 16, 8), 4, (1, 0, 2, 3), "NCHW8c"
        ),
        op.nn.contrib_conv2d_winograd_without_weight_transform(
            f(2, 5, 9, 7, low=-0.1, high=0.1), f(1, 6, 6, 5, 12), 4, 1, "NCHW"
        ),
    ],
    "nn.dense": [
        op.nn.dense(f(2, 3, 9), f(2, 9, 4), weight_layout="UD4u"),
        op.nn.dense(f(1, 37), f(19, 37)),
        op.nn.dense(f(5, 37), f(2, 37, 16), weight_layout="NC16n"),
        op.nn.dense(f(2, 3, 37), f(4, 37, 8), weight_layout="NC8n"),
    ],
    "nn.batch_matmul": [
        op.nn.batch_matmul(f(3, 5, 17), f(3, 19, 17)),
        op.nn.batch_matmul(f(2, 17, 5), f(1, 17, 32), transpose_a=True, transpose_b=False),
    ],
    "nn.matmul": [op.nn.matmul(f(5, 17), f(17, 19)), op.nn.matmul(f(5, 17), f(19, 17), transpose_b=True)],
    "nn.max_pool2d": [
        op.nn.max_pool2d(f(1, 3, 9, 11), 3, 2, padding=1),
        op.nn.max_pool2d(f(1, 2, 9, 11, 8), 2, 2, ceil_mode=True, layout="NCHW8c"),
    ],
    "nn.avg_pool2d": [
        op.nn.avg_pool2d(f(1, 3, 9, 11), 3, 2, padding=1),
        op.nn.avg_pool2d(f(1, 2, 9, 11, 8), 3, 1, padding=1, count_include_pad=True, layout="NCHW8c"),
    ],
    "nn.global_max_pool2d": [
        op.nn.global_max_pool2d(f(1, 5, 7, 9)),
        op.nn.global_max_pool2d(f(1, 2, 7, 7, 8), "NCHW8c"),
    ],
    "nn.global_avg_pool2d": [
        op.nn.global_avg_pool2d(f(1, 5, 7, 9)),
        op.nn.global_avg_pool2d(f(1, 2, 7, 7, 8), "NCHW8c"),
    ],
    "nn.adaptive_max_pool2d": [op.nn.adaptive_max_pool2d(f(1, 3, 7, 9), (3, 4))],
    "nn.adaptive_avg_pool2d": [op.nn.adaptive_avg_pool2d(f(1, 3, *size), (3, 4)) for size in ((7, 9), (6, 8))],
    "nn.softmax": [op.nn.softmax(f(90, 101)), op.nn.softmax(f(3, 7, 19), 1), op.nn.softmax(f(19), 0)],
    "nn.log_softmax": [op.nn.log_softmax(f(9, 101))],
    "nn.layer_norm": [op.nn.layer_norm(f(3, 50, 67), f(67), f(67)), op.nn.layer_norm(f(3, 5, 7), f(5), f(5), axis=1)],
    "nn.group_norm": [op.nn.group_norm(f(2, 6, 5, 7), f(6), f(6), 3)],
    "nn.instance_norm": [op.nn.instance_norm(f(2, 6, 5, 7), f(6), f(6))],
    "nn.batch_norm": [op.nn.batch_norm(f(2, 6, 5, 7), f(6), f(6), f(6), f(6, low=0.1))],
    "nn.lrn": [op.nn.lrn(f(1, 9, 5, 7), 3)],
    "nn.lstm": [
        op.nn.lstm(f(3, 2, 32), f(1, 32, 8), f(1, 2, 8), f(1, 2, 8)),
        op.nn.lstm(f(3, 2, 64), f(2, 32, 8), f(2, 2, 8), f(2, 2, 8), f(2, 24), direction="bidirectional"),
    ],
    "nn.gru": [
        op.nn.gru(f(3, 2, 24), f(1, 24, 8), f(1, 2, 8)),
        op.nn.gru(f(3, 2, 24), f(1, 24, 8), f(1, 2, 8), f(1, 8), direction="reverse", linear_before_reset=True),
    ],
    "nn.rnn": [op.nn.rnn(f(3, 2, 16), f(2, 8, 8), f(2, 2, 8), direction="bidirectional")],
    "nn.attention": [
        op.nn.attention(f(2, 3, 5, 8), f(2, 3, 7, 8), f(2, 3, 7, 16), scale=0.3),
        op.nn.attention(f(1, 4, 9, 16), f(1, 2, 9, 16), f(1, 2, 9, 8), scale=0.25, causal=True, out_layout="BSHD"),
        op.nn.attention(f(2, 2, 5, 8), f(2, 2, 7, 8), f(2, 2, 7, 8), f(1, 1, 5, 7)),
    ],
    "nn.dropout": [op.nn.dropout(f(4, 19))],
    "nn.straight_through": [op.nn.straight_through(f(4, 19), f(4, 19))],
    "nn.batch_flatten": [op.nn.batch_flatten(f(2, 3, 19))],
    "nn.depth_to_space": [op.nn.depth_to_space(f(1, 12, 3, 5), 2), op.nn.depth_to_space(f(1, 12, 3, 5), 2, "CRD")],
    "nn.space_to_depth": [op.nn.space_to_depth(f(1, 3, 4, 6), 2)],
}  # fmt: skip
