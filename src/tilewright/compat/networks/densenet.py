"""Densely connected networks (Huang et al. 2017)."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.networks.layers import batch_norm_infer, classify, conv2d, image, network
from tilewright.compat.networks.workload import create_workload

#: Depth -> (channels of the stem, growth, layers in each block).
SPECS = {121: (64, 32, (6, 12, 24, 16)), 161: (96, 48, (6, 12, 36, 24)), 169: (64, 32, (6, 12, 32, 32))}


def _normed(data: relay.Expr, name: str) -> relay.Expr:
    return relay.nn.relu(batch_norm_infer(data, epsilon=1e-5, name=name))


def get_net(
    batch_size: int,
    classes: int,
    image_shape: Any,
    dtype: str,
    stem: int,
    growth: int,
    blocks: Any,
    bottleneck: int = 4,
) -> relay.Function:
    """Probabilities [batch_size, classes]."""
    body: relay.Expr = image(batch_size, image_shape, dtype)
    body = _normed(conv2d(body, channels=stem, kernel_size=(7, 7), strides=2, padding=3, name="conv1"), "batch1")
    body = relay.nn.max_pool2d(body, (3, 3), strides=(2, 2), padding=(1, 1))
    width = stem
    for block, layers in enumerate(blocks):
        for layer in range(layers):
            name = f"block{block}_{layer}"
            value = conv2d(
                _normed(body, f"{name}_bn1"), channels=bottleneck * growth, kernel_size=(1, 1), name=f"{name}_conv1"
            )
            value = _normed(value, f"{name}_bn2")
            value = conv2d(value, channels=growth, kernel_size=(3, 3), padding=1, name=f"{name}_conv2")
            body, width = relay.concatenate([body, value], axis=1), width + growth
        if block + 1 < len(blocks):
            width //= 2
            body = conv2d(_normed(body, f"t{block}_bn"), channels=width, kernel_size=(1, 1), name=f"t{block}_conv")
            body = relay.nn.avg_pool2d(body, (2, 2), strides=(2, 2))
    return network(classify(_normed(body, "batch_final"), classes))


def get_workload(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: int = 4,
    image_shape: Any = (3, 224, 224),
    dtype: str = "float32",
) -> Any:
    """The network as a module, and random parameters."""
    return create_workload(get_net(batch_size, classes, image_shape, dtype, *SPECS[densenet_size]))
