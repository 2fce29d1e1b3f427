"""The network of deep Q-learning (Mnih et al. 2015)."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.networks.layers import conv2d, dense_add_bias, image, network
from tilewright.compat.networks.workload import workload


def get_net(
    batch_size: int, num_actions: int = 18, image_shape: Any = (4, 84, 84), dtype: str = "float32"
) -> relay.Function:
    """Values [batch_size, num_actions] of the actions, from four frames."""
    body: relay.Expr = image(batch_size, image_shape, dtype)
    for index, (channels, size, stride) in enumerate(((32, 8, 4), (64, 4, 2), (64, 3, 1))):
        name = f"conv{index + 1}"
        body = conv2d(body, channels=channels, kernel_size=(size, size), strides=stride, name=name)
        body = relay.nn.relu(relay.nn.bias_add(body, relay.var(f"{name}_bias")))
    hidden = relay.nn.relu(dense_add_bias(relay.nn.batch_flatten(body), units=512, name="dense1"))
    return network(dense_add_bias(hidden, units=num_actions, name="dense2"))


get_workload = workload(get_net, "dqn")
