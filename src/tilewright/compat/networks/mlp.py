"""A multilayer perceptron."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.networks.layers import dense_add_bias, image, network
from tilewright.compat.networks.workload import workload


def get_net(
    batch_size: int = 1, num_classes: int = 10, image_shape: Any = (1, 28, 28), dtype: str = "float32"
) -> relay.Function:
    """Three dense layers of 128, 64 and `num_classes` units; probabilities [batch_size, num_classes]."""
    hidden = relay.nn.batch_flatten(image(batch_size, image_shape, dtype))
    for index, units in enumerate((128, 64)):
        hidden = relay.nn.relu(dense_add_bias(hidden, units=units, name=f"fc{index + 1}"))
    return network(relay.nn.softmax(dense_add_bias(hidden, units=num_classes, name="fc3")))


get_workload = workload(get_net, "mlp")
