"""A long short-term memory, unrolled over its steps."""

from __future__ import annotations

from tilewright import relay
from tilewright.compat.networks.layers import network
from tilewright.compat.networks.workload import workload


def get_net(iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32") -> relay.Function:
    """`iterations` steps that read "data" [batch_size, num_hidden] each; the last hidden state."""
    square = relay.TensorType((num_hidden, num_hidden), dtype)
    weights = [[relay.var(f"{gate}_{name}_weight", square) for name in "ifco"] for gate in ("i2h", "h2h")]
    biases = [relay.var(f"{name}_bias", shape=(num_hidden,), dtype=dtype) for name in "ifco"]
    data = relay.var("data", shape=(batch_size, num_hidden), dtype=dtype)
    hidden = cell = relay.zeros((batch_size, num_hidden), dtype)
    for _ in range(iterations):
        sums = [
            relay.nn.bias_add(relay.add(relay.nn.dense(data, wi), relay.nn.dense(hidden, wh)), bias)
            for wi, wh, bias in zip(*weights, biases, strict=True)
        ]
        take, forget, out = relay.sigmoid(sums[0]), relay.sigmoid(sums[1]), relay.sigmoid(sums[3])
        cell = relay.add(relay.multiply(forget, cell), relay.multiply(take, relay.tanh(sums[2])))
        hidden = relay.multiply(out, relay.tanh(cell))
    return network(hidden)


get_workload = workload(get_net, "lstm")
