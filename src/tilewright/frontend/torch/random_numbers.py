"""Random numbers: of the distributions that PyTorch requests, but not the numbers that it would draw.

All draws of a graph come from one key, which is an input of the graph or drawn by every run; each call of an operator
takes a stream of its own from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.frontend.idioms import broadcast_to, cast, constant, like, rank_of, shape_of
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.types import is_static
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type import TensorType
from tilewright.relay.op.onnx_host import host_call
from tilewright.relay.op.random import uniform

#: The type of a key: two words are the key itself, the fourth says which stream of it is meant.
KEY = TensorType((10,), "uint64")


class Draws:
    """The streams of one graph, taken in the order of its calls."""

    def __init__(self, key: Callable[[], Expr] | None = None) -> None:
        """`key` makes the expression that all streams come from; by default every run draws one."""
        self._make, self._count = key or _drawn_key, 0
        self._key: Expr | None = None

    @property
    def used(self) -> bool:
        """True if anything was drawn."""
        return self._count > 0

    def stream(self) -> Expr:
        """A key that no other call has."""
        if self._key is None:
            self._key = self._make()
        position = np.zeros(10, np.uint64)
        position[3] = self._count
        self._count += 1
        return self._key + Constant(position)


def _drawn_key() -> Expr:
    words = host_call("RandomUniform", [], TensorType((10,), "float64"), low=0.0, high=2.0**53,
                      shape=[10], result_dtype="float64")  # fmt: skip
    return op.cast(words * Constant(np.array([1, 1, *([0] * 8)], np.float64)), dtype="uint64")


def draw(node: TorchNode, shape: Sequence[Any], dtype: Any = None) -> Expr:
    """Numbers spread evenly over [0, 1)."""
    if not is_static(shape):
        node.unsupported("as many random numbers as a size that is not fixed")
    wide = "float64" if dtype is not None and str(dtype) == "float64" else "float32"
    call = uniform(node.draws.stream(), [int(extent) for extent in shape], wide)
    made: Expr = call[1]
    return made if dtype is None else cast(made, dtype)


def normal(node: TorchNode, shape: Sequence[Any], dtype: Any) -> Expr:
    """Numbers of the standard normal distribution, after Box and Muller."""
    wide = "float64" if str(dtype) == "float64" else "float32"
    first, second = draw(node, shape, wide), draw(node, shape, wide)
    return cast(op.sqrt(-2 * op.log(1 - first)) * op.cos(2 * math.pi * second), dtype)


def dropped(node: TorchNode, value: Expr, share: float) -> tuple[Expr, Expr]:
    """`value` with a share of its elements 0 and the others as much larger, and where they were kept."""
    kept = draw(node, shape_of(value)) >= constant(share, "float32")
    scale = 1 / (1 - share) if share < 1 else 0.0
    return value * cast(kept, str(like(0, value).data.dtype)) * scale, kept


@converts("aten.rand", "aten.rand_like", "aten.randn", "aten.randn_like", "aten.normal_functional", "aten.uniform",
          "prims.normal")  # fmt: skip
def convert_random(node: TorchNode, std: Any = 1.0) -> Expr:
    if "rand." in node.target or "rand_like" in node.target:
        return draw(node, node.shape, node.dtype)
    if "uniform" in node.target:
        low, high = float(node["from"]), float(node["to"])
        return draw(node, node.shape, node.dtype) * (high - low) + low
    made = normal(node, node.shape, node.dtype)
    if "randn" in node.target:
        return made
    mean, deviation = node.get("mean", 0.0), std
    return made * node.as_tensor(deviation) + node.as_tensor(mean)


@converts("aten.randint", "aten.randint_like")
def convert_randint(node: TorchNode, high: int, low: int = 0) -> Expr:
    """Integers from `low` to below `high`."""
    made = op.floor(draw(node, node.shape, "float64") * constant(high - low, "float64"))
    return cast(made + constant(low, "float64"), node.dtype)


@converts("aten.randperm")
def convert_randperm(node: TorchNode) -> Expr:
    """The numbers below `n` in any order: that of random ones."""
    return cast(op.argsort(draw(node, node.shape, "float64"), axis=0, dtype="int64"), node.dtype)


@converts("aten.bernoulli")
def convert_bernoulli(node: TorchNode) -> Expr:
    share = node["self"] if node.get("p") is None else node.as_tensor(node["p"], node.dtype)
    shape = shape_of(node["self"])
    made = draw(node, shape) < cast(broadcast_to(share, shape), "float32")
    return cast(made, node.dtype)


@converts("aten.exponential")
def convert_exponential(node: TorchNode) -> Expr:
    """Waiting times at the rate `lambd`."""
    return op.log(1 - draw(node, node.shape, node.dtype)) * (-1 / node["lambd"])


@converts("aten.dropout", "aten.feature_dropout")
def convert_dropout(node: TorchNode, train: bool, p: Any) -> Expr:
    """The input itself at inference; in training a share of its elements, or of its channels, is 0."""
    data = cast(node["input"], node.dtype)
    if not train or p == 0:
        return data
    if "feature" not in node.target:
        return dropped(node, data, float(p))[0]
    shape = shape_of(data)
    ones = broadcast_to(like(1, data), (*shape[:2], *[1] * (rank_of(data) - 2)))
    return data * dropped(node, ones, float(p))[0]


@converts("aten.native_dropout")
def convert_native_dropout(node: TorchNode, data: Expr, p: Any, train: Any = None) -> list[Expr]:
    return [data, op.equal(data, data)] if not train or p == 0 else list(dropped(node, data, float(p)))


@converts("aten.alpha_dropout", "aten.feature_alpha_dropout")
def convert_alpha_dropout(node: TorchNode) -> Expr:
    if node["train"] and node["p"] != 0:
        node.unsupported("training, which draws random numbers,")
    return cast(node["input"], node.dtype)
