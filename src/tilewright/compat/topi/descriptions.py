"""Descriptions of classic operators by name."""

from __future__ import annotations

from tilewright.compat.relay import array_operators, arrays, convolutions, nn_operators, stated_sizes
from tilewright.compat.topi import normalizations as normalizations
from tilewright.compat.topi import resizing as resizing
from tilewright.compat.topi.through_relay import Description
from tilewright.relay import op


def description(name: str) -> Description:
    """The description called `name`, or the Relay operator of that name. Raises AttributeError if there is none."""
    for module in (convolutions, nn_operators, array_operators, normalizations, resizing, stated_sizes, arrays):
        found = vars(module).get(name)
        if found is not None and getattr(found, "__module__", "") == module.__name__:
            return found
    for operators in (op, op.nn, op.image, op.vision, op.random):
        if not name.startswith("_") and hasattr(operators, name):
            return getattr(operators, name)
    raise AttributeError(name)
