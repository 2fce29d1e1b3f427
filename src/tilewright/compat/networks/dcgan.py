"""The generator of DCGAN (Radford et al. 2015)."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.networks.layers import batch_norm_infer, conv2d_transpose, dense_add_bias, network
from tilewright.compat.networks.workload import workload


def get_net(
    batch_size: int, random_len: int = 100, oshape: Any = (3, 64, 64), ngf: int = 128, dtype: str = "float32"
) -> relay.Function:
    """Images [batch_size, *oshape] from random vectors; `oshape` is 64 x 64."""
    code = relay.var("data", shape=(batch_size, random_len), dtype=dtype)
    body: relay.Expr = relay.nn.relu(dense_add_bias(code, units=4 * 4 * ngf * 8, name="dense"))
    body = relay.reshape(body, (-1, ngf * 8, 4, 4))
    window: dict[str, Any] = {"kernel_size": (4, 4), "strides": (2, 2), "padding": (1, 1), "kernel_layout": "IOHW"}
    for index, channels in enumerate((ngf * 4, ngf * 2, ngf)):
        body = conv2d_transpose(body, channels=channels, name=f"g{index + 2}_deconv", **window)
        body = relay.nn.relu(batch_norm_infer(body, epsilon=1e-5, name=f"g{index + 2}_bn"))
    return network(relay.tanh(conv2d_transpose(body, channels=oshape[0], name="g5_deconv", **window)))


get_workload = workload(get_net, "dcgan")
