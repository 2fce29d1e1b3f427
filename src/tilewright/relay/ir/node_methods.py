"""Methods of nodes that are functions written in terms of nodes: their text, their types, operators by name.

    @node_method
    def to_text(node, types=False): ...

Each of those functions enters itself when its module is loaded, as `tilewright.relay` does with all of them, and the
nodes call it here: so no node's module imports one that imports nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class NodeMethods:
    """The functions by name."""

    to_text: Callable[..., str]
    astext: Callable[..., str]
    type_of: Callable[..., Any]
    type_args: Callable[..., Any]
    get: Callable[[str], Any]


METHODS = NodeMethods()


def node_method(function: Function) -> Function:
    """Enter `function` under its own name."""
    setattr(METHODS, function.__name__, function)
    return function
