"""SqueezeNet (Iandola et al. 2016), version 1.1 by default."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.networks.layers import conv2d, image, network
from tilewright.compat.networks.workload import workload
from tilewright.errors import InputError

#: Version -> (first convolution, then (squeeze, expand) of fire modules, "pool" for poolings).
VERSIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "1.0": ((96, 7), ("pool", (16, 64), (16, 64), (32, 128), "pool", (32, 128), (48, 192), (48, 192), (64, 256), "pool",
                      (64, 256))),
    "1.1": ((64, 3), ("pool", (16, 64), (16, 64), "pool", (32, 128), (32, 128), "pool", (48, 192), (48, 192), (64, 256),
                      (64, 256))),
}  # fmt: skip


def _conv(data: relay.Expr, channels: int, size: int, name: str, stride: int = 1, padding: int = 0) -> relay.Expr:
    value = conv2d(data, channels=channels, kernel_size=(size, size), strides=stride, padding=padding, name=name)
    return relay.nn.relu(relay.nn.bias_add(value, relay.var(f"{name}_bias")))


def get_net(
    batch_size: int, image_shape: Any, num_classes: int, version: str = "1.1", dtype: str = "float32"
) -> relay.Function:
    """Probabilities [batch_size, num_classes]."""
    if version not in VERSIONS:
        raise InputError(f"there is no SqueezeNet {version}; there are: {', '.join(VERSIONS)}")
    (channels, size), modules = VERSIONS[version]
    body = _conv(image(batch_size, image_shape, dtype), channels, size, "conv1", stride=2)
    for index, module in enumerate(modules):
        if module == "pool":
            body = relay.nn.max_pool2d(body, (3, 3), strides=(2, 2))
            continue
        squeezed = _conv(body, module[0], 1, f"fire{index}_squeeze")
        left = _conv(squeezed, module[1], 1, f"fire{index}_left")
        right = _conv(squeezed, module[1], 3, f"fire{index}_right", padding=1)
        body = relay.concatenate([left, right], axis=1)
    body = _conv(body, num_classes, 1, "conv_final")
    return network(relay.nn.softmax(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(body))))


get_workload = workload(get_net, "squeezenet")
