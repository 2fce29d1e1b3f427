"""One operator of an MXNet symbol as its converter sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.frontend.converters import Converters
from tilewright.frontend.graph_node import GraphNode
from tilewright.frontend.mxnet.load import SymbolNode, parsed
from tilewright.relay.ir.expr import Expr

#: The one table of converters of the format.
converts = Converters("mxnet")


class MxnetNode(GraphNode):
    """Attributes are read as Python literals."""

    def __init__(self, node: SymbolNode, inputs: Sequence[Expr]) -> None:
        super().__init__(node.operator, node.name, inputs)
        self.attrs = {name: parsed(text) for name, text in node.attrs.items()}

    def attribute(self, name: str) -> Any:
        return self.attrs.get(name)

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute; where it is missing or None, the default."""
        value = self.attrs.get(name)
        return default if value is None else value

    def needed(self, name: str) -> Any:
        """An attribute that must be given."""
        if self.attrs.get(name) is None:
            self.bad(f"its attribute {name} is missing")
        return self.attrs[name]

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute that is true or false."""
        return bool(self.attr(name, default)) and str(self.attr(name, default)).lower() != "false"

    def numbers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """An attribute that is one whole number or several."""
        value = self.attr(name, default)
        if value is None:
            self.bad(f"its attribute {name} is missing")
        return [int(item) for item in value] if isinstance(value, tuple | list) else [int(value)]

    def axes(self, name: str = "axis", exclude: bool = False) -> tuple[int, ...]:
        """Axes counted from the front; all where none are given; with `exclude`, the others."""
        value = self.attr(name)
        listed = () if value in (None, ()) else value if isinstance(value, tuple | list) else (value,)
        found = tuple(self.axis(int(axis)) for axis in listed) or tuple(range(self.rank()))
        return tuple(axis for axis in range(self.rank()) if axis not in found) if exclude else found
