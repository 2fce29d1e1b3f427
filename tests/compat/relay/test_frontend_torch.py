"""`relay.frontend.from_pytorch` as programs of its time call it."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
from tilewright.errors import UnsupportedError

torch = pytest.importorskip("torch", reason="needs the torch package")


def test_a_traced_module() -> None:
    from tvm import relay

    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    traced = torch.jit.trace(network, (x,))
    for infos in ([("data", (3, 4))], [("data", ((3, 4), "float32"))]):
        mod, params = relay.frontend.from_pytorch(traced, infos)
        assert not params and mod["main"].params[0].name_hint == "data"
        found = tilewright.compile(mod, cache=False)(x.numpy())
        np.testing.assert_allclose(found, network(x).detach().numpy(), 1e-5, 1e-6)
    with pytest.raises(UnsupportedError, match="custom_convert_map"):
        relay.frontend.from_pytorch(traced, infos, {"aten::relu": lambda *_: None})
