"""What the host operators that come from ONNX share: how their optional inputs and attributes reach them.

The importer passes the inputs that are present, and in the attribute `given` which ones those are; a function gets
None for each that is missing. The other attributes are the ONNX node's own, by name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from tilewright.runtime.host_ops.registry import HostOp, host_op


def onnx_op(*names: str) -> Callable[[HostOp], HostOp]:
    """Enter the decorated function as the host operators `onnx.NAME`; missing inputs arrive as None."""

    def register(function: HostOp) -> HostOp:
        @wraps(function)
        def spread(attrs: dict[str, Any], *values: Any) -> Any:
            given = attrs.get("given")
            if given is None:
                return function(attrs, *values)
            rest = iter(values)
            return function(attrs, *[next(rest) if present else None for present in given])

        for name in names:
            host_op(f"onnx.{name}")(spread)
        return function

    return register
