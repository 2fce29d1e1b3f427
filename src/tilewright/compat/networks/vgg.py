"""VGG (Simonyan and Zisserman 2014)."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.networks.layers import batch_norm_infer, conv2d, dense_add_bias, image, network
from tilewright.compat.networks.workload import workload
from tilewright.errors import InputError

#: Depth -> convolutions in each of the five stages.
STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
WIDTHS = (64, 128, 256, 512, 512)


def get_net(
    batch_size: int, image_shape: Any, num_classes: int, dtype: str = "float32", num_layers: int = 11,
    batch_norm: bool = False,
) -> relay.Function:  # fmt: skip
    """Probabilities [batch_size, num_classes]."""
    if num_layers not in STAGES:
        raise InputError(f"there is no VGG of {num_layers} layers; there are: {', '.join(map(str, STAGES))}")
    body: relay.Expr = image(batch_size, image_shape, dtype)
    for stage, (count, width) in enumerate(zip(STAGES[num_layers], WIDTHS, strict=True)):
        for index in range(count):
            name = f"conv{stage + 1}_{index + 1}"
            body = conv2d(body, channels=width, kernel_size=(3, 3), padding=1, name=name)
            body = relay.nn.bias_add(body, relay.var(f"{name}_bias"))
            body = relay.nn.relu(batch_norm_infer(body, name=f"bn{stage + 1}_{index + 1}") if batch_norm else body)
        body = relay.nn.max_pool2d(body, (2, 2), strides=(2, 2))
    body = relay.nn.batch_flatten(body)
    for name in ("fc6", "fc7"):
        body = relay.nn.relu(dense_add_bias(body, units=4096, name=name))
    return network(relay.nn.softmax(dense_add_bias(body, units=num_classes, name="fc8")))


get_workload = workload(get_net, "vgg")
