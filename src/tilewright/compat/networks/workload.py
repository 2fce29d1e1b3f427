"""Networks as modules with random parameters: `create_workload` of a function, `workload` of a builder."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.compat.ir.meanings import only
from tilewright.compat.ir.module import IRModule, as_module
from tilewright.compat.runtime.array import NDArray, array
from tilewright.compat.tables.signatures import adapted
from tilewright.relay.ir.infer_type import infer_type

#: The parameters with these endings start as a constant.
_CONSTANTS = {"_gamma": 1.0, "_beta": 0.0, "_bias": 0.0, "_mean": 0.0, "_var": 1.0}
_INPUTS = ("data", "x")

Initializer = Callable[[str, np.ndarray[Any, Any]], None]


class Xavier:
    """Fills weights with uniform numbers between ±sqrt(magnitude / units), or normal ones of that deviation.

    `units` is the mean of the inputs and outputs of a unit, or by `factor_type` one of them.
    """

    def __init__(
        self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3, seed: int = 0
    ) -> None:
        known = {"rnd_type": (rnd_type, ("uniform", "gaussian")), "factor_type": (factor_type, ("avg", "in", "out"))}
        for name, (given, meant) in known.items():
            only("relay.testing.init.Xavier", name, given, *meant)
        self.rnd_type, self.factor_type, self.magnitude = rnd_type, factor_type, magnitude
        self.random = np.random.default_rng(seed)

    def __call__(self, name: str, value: np.ndarray[Any, Any]) -> None:
        """Fill `value`, the parameter called `name`: constants for biases and statistics."""
        for ending, constant in _CONSTANTS.items():
            if name.endswith(ending):
                value[...] = constant
                return
        window = float(np.prod(value.shape[2:])) if value.ndim > 2 else 1.0
        outputs, inputs = value.shape[0] * window, (value.shape[1] if value.ndim > 1 else 1) * window
        units = {"avg": (inputs + outputs) / 2, "in": inputs, "out": outputs}[self.factor_type]
        scale = np.sqrt(self.magnitude / max(units, 1.0))
        if self.rnd_type == "gaussian":
            value[...] = self.random.normal(0, scale, value.shape)
        else:
            value[...] = self.random.uniform(-scale, scale, value.shape)


def create_workload(
    net: relay.Function, initializer: Initializer | None = None, seed: int = 0
) -> tuple[IRModule, dict[str, NDArray]]:
    """A typed module of `net` and values for all its parameters but "data" and "x"."""
    mod = as_module(net)
    infer_type(mod)
    fill = initializer or Xavier(seed=seed)
    params: dict[str, NDArray] = {}
    for param in mod["main"].params:
        if param.name in _INPUTS:
            continue
        type_ = param.checked_type
        assert isinstance(type_, relay.TensorType)
        value = np.zeros(type_.concrete_shape, type_.dtype.numpy)
        fill(param.name, value)
        params[param.name] = array(value)
    return mod, params


def workload(get_net: Callable[..., relay.Function], network: str) -> Any:
    """`get_workload` of a network: `create_workload` of what `get_net` builds, called by the classic parameters."""

    @functools.wraps(get_net)
    def get_workload(*args: Any, **options: Any) -> tuple[IRModule, dict[str, NDArray]]:
        return create_workload(get_net(*args, **options))

    get_workload.__doc__ = "The network as a module, and random parameters."
    return adapted(f"tvm.relay.testing.{network}.get_workload", get_workload)
