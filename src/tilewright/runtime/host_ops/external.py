"""Regions of a graph that run in NumPy, and so in the BLAS library that NumPy was built with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.runtime.host_ops.registry import host_op

Attrs = dict[str, Any]


def _swapped(value: Any, swap: bool) -> Any:
    return np.swapaxes(value, -1, -2) if swap else value


def _product(attrs: Attrs, a: Any, b: Any) -> Any:
    return np.matmul(_swapped(a, attrs["transpose_a"]), _swapped(b, attrs["transpose_b"]))


#: What each operator of a step computes, of its attributes and its operands.
STEPS: dict[str, Callable[..., Any]] = {
    "nn.dense": lambda attrs, data, weight: np.matmul(data, weight.T),
    "nn.matmul": _product,
    "nn.batch_matmul": _product,
    "add": lambda attrs, a, b: np.add(a, b),
    "subtract": lambda attrs, a, b: np.subtract(a, b),
    "multiply": lambda attrs, a, b: np.multiply(a, b),
    "nn.relu": lambda attrs, x: np.maximum(x, 0),
    "tanh": lambda attrs, x: np.tanh(x),
    "exp": lambda attrs, x: np.exp(x),
    "sqrt": lambda attrs, x: np.sqrt(x),
    "concatenate": lambda attrs, parts: np.concatenate(parts, attrs["axis"]),
}


@host_op("external.host")
def host_program(attrs: Attrs, *operands: Any) -> Any:
    """Run `attrs["steps"]`, [operator, operand numbers, attributes] each; values are numbered, `operands` first.

    A list among the operand numbers is a tuple.
    `attrs["results"]` numbers the values to return: the value itself if there is one, else a tuple.
    """
    values = list(operands)
    for name, numbers, step_attrs in attrs["steps"]:
        taken = [[values[n] for n in number] if isinstance(number, list) else values[number] for number in numbers]
        values.append(STEPS[name](step_attrs, *taken))
    results = tuple([np.asarray(values[number], order="C") for number in attrs["results"]])
    return results[0] if len(results) == 1 else results
