"""Shared parts of the host operators that come from ONNX: binding of inputs and attributes, and the form of results.

The importer passes the inputs that are present, and in the attribute `given` which ones those are; a function gets
None for each that is missing. The other attributes are the ONNX node's own, by name. A scalar that NumPy makes of an
array of no dimensions becomes an array again. Values that a function cannot take are an `InputError` that says which.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.registry import HostOp, host_op


def onnx_op(*names: str) -> Callable[[HostOp], HostOp]:
    """Enter the decorated function as the host operators `onnx.NAME`; missing inputs arrive as None."""

    def register(function: HostOp) -> HostOp:
        @wraps(function)
        def spread(attrs: dict[str, Any], *values: Any) -> Any:
            given = attrs.get("given")
            rest = iter(values)
            inputs = values if given is None else [next(rest) if present else None for present in given]
            try:
                result = function(attrs, *inputs)
            except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError) as error:
                texts = ", ".join(map(_described, inputs))
                raise InputError(f"{' or '.join(names)} cannot run on {texts}: {error}") from error
            return tuple(map(_array, result)) if isinstance(result, tuple) else _array(result)

        for name in names:
            host_op(f"onnx.{name}")(spread)
        return function

    return register


def require_shape(name: str, value: np.ndarray[Any, Any] | None, shape: tuple[int, ...]) -> None:
    """Raise `ValueError` where an input that is there has another shape: NumPy would repeat it, or take a part."""
    if value is not None and value.shape != shape:
        raise ValueError(f"{name} of shape {value.shape}, and not {shape}")


def _array(value: Any) -> Any:
    """A scalar as an array without dimensions; any other value as it is."""
    if not isinstance(value, str | np.generic):
        return value
    array = np.empty((), object if isinstance(value, str) else value.dtype)
    array[()] = value
    return array


def _described(value: Any) -> str:
    """An input in a few words."""
    if isinstance(value, np.ndarray):
        return f"{'string' if value.dtype == object else value.dtype}{list(value.shape)}"
    return "nothing" if value is None else f"a {type(value).__name__}"
