"""The one table of host operators.

A host operator is a Python function of its attributes (plain data) and its values. Values are NumPy arrays (`object`
arrays for strings), Python lists for sequences, None for an empty optional, or whatever else the operators of one
family agree on; several results come as a tuple. It must not write to the arrays it is given.

    @host_op("nonzero")
    def nonzero(attrs, x): ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.errors import ArtifactError, EnvironmentError_, InternalError
from tilewright.support import plugins
from tilewright.support.entry_points import OPERATORS, load_plugins

HostOp = Callable[..., Any]

#: Name of the operator -> its function.
HOST_OPS: dict[str, HostOp] = {}


def host_op(name: str) -> Callable[[HostOp], HostOp]:
    """Enter the decorated function into the table as `name`. A second registration of a name is an internal error."""

    def register(function: HostOp) -> HostOp:
        if name in HOST_OPS:
            raise InternalError(f"the host operator {name!r} is registered twice")
        HOST_OPS[name] = function
        plugins.note("host operator", name, function)
        return function

    return register


def find(name: str, attrs: Mapping[str, Any]) -> Callable[..., Any]:
    """The host operator `name` with `attrs` bound. Raises `ArtifactError` where this version has none of that name."""
    if name not in HOST_OPS:
        load_plugins(OPERATORS)
    function = HOST_OPS.get(name)
    if function is None:
        raise ArtifactError(f"this version of Tilewright has no host operator {name!r}; compile the model again")

    def run(*values: Any) -> Any:
        try:
            return function(attrs, *values)
        except MemoryError as error:
            raise EnvironmentError_(f"the operator {name} found no memory for its result: {error}") from None

    return run
