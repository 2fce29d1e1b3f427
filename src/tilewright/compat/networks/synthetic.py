"""A network of three small convolutions, for trying a flow."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.ir.meanings import only
from tilewright.compat.networks.layers import batch_norm_infer, conv2d, image, network
from tilewright.compat.networks.workload import workload


def get_net(input_shape: Any = (1, 3, 24, 12), dtype: str = "float32", wtype: str | None = None) -> relay.Function:
    """Convolutions of 3, 3 and 1 channels with batch norm and relu between them."""
    only("relay.testing.synthetic.get_net", "wtype", wtype, dtype)
    body: relay.Expr = image(input_shape[0], input_shape[1:], dtype)
    for index, channels in enumerate((3, 3)):
        body = conv2d(body, channels=channels, kernel_size=(3, 3), padding=1, name=f"conv{index}")
        body = relay.nn.relu(batch_norm_infer(body, name=f"bn{index}"))
    return network(conv2d(body, channels=1, kernel_size=(3, 3), padding=1, name="conv2"))


get_workload = workload(get_net, "synthetic")
