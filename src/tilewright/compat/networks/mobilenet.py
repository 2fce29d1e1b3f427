"""MobileNet (Howard et al. 2017)."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.networks.layers import classify, conv_bn_relu, image, network
from tilewright.compat.networks.workload import create_workload

#: (output channels, stride) of each separable block.
BLOCKS = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1), (512, 1), (512, 1),
    (1024, 2), (1024, 1),
)  # fmt: skip


def get_net(
    num_classes: int = 1000,
    data_shape: Any = (1, 3, 224, 224),
    dtype: str = "float32",
    alpha: float = 1.0,
    layout: str = "NCHW",
) -> relay.Function:
    """A network whose widths are scaled by `alpha`."""
    body: relay.Expr = image(data_shape[0], data_shape[1:], dtype)
    width = int(32 * alpha)
    body = conv_bn_relu(body, "conv_block_1", layout, channels=width, kernel_size=(3, 3), strides=2, padding=1)
    for index, (channels, stride) in enumerate(BLOCKS):
        name = f"separable_conv_block_{index + 1}"
        body = conv_bn_relu(
            body,
            f"{name}_depthwise",
            layout,
            channels=width,
            groups=width,
            kernel_size=(3, 3),
            strides=stride,
            padding=1,
        )
        width = int(channels * alpha)
        body = conv_bn_relu(body, f"{name}_pointwise", layout, channels=width, kernel_size=(1, 1))
    return network(classify(body, num_classes, layout=layout))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: Any = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Any:
    """The network as a module, and random parameters; `image_shape` is in the `layout`, NCHW or NHWC."""
    return create_workload(get_net(num_classes, (batch_size, *image_shape), dtype, layout=layout))
