"""One operation of an ML program as its converter sees it: arguments by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tilewright.frontend.converters import Converters
from tilewright.frontend.graph_node import GraphNode
from tilewright.frontend.messages import Record
from tilewright.relay.ir.expr import Constant, Expr, Function, GlobalVar

#: The one table of converters of the format.
converts = Converters("coreml")

Argument = Any  # an expression, a text, or a list of them


class Blocks(Protocol):
    """The blocks of an operation, programs that see the values of the one around."""

    count: int
    #: Functions of the module beside `main`, to which control flow adds.
    functions: dict[GlobalVar, Function]

    def results(self, index: int, arguments: Sequence[Expr], outer: Mapping[str, Expr] | None = None) -> list[Expr]:
        """The outputs of block `index`; `outer` replaces values from around it, by name."""

    def outer(self) -> dict[str, Expr]:
        """The values from around the blocks that they read, by name; constants are left out."""


class MilNode(GraphNode):
    """`args` are expressions, texts, or lists of them, by the names of the operation's definition."""

    def __init__(
        self, operation: Record, name: str, args: Mapping[str, Argument], blocks: Blocks | None = None
    ) -> None:
        super().__init__(operation.type, name, [])
        ordered = sorted(args, key=lambda argument: argument not in ("x", "data"))
        self.inputs = [args[argument] for argument in ordered if not isinstance(args[argument], str)]
        self.operation = operation
        self.args = dict(args)
        self.blocks = blocks

    def has_arg(self, name: str) -> bool:
        """True where the argument is given."""
        return name in self.args

    def arg(self, name: str = "x") -> Expr:
        """A tensor argument; a missing one is a `ModelError`."""
        value = self.args.get(name)
        if not isinstance(value, Expr):
            self.bad(f"its argument {name} is {'missing' if value is None else 'no tensor'}")
        return value

    def operand(self, name: str, index: int, optional: bool) -> Expr | None:
        """As `NodeInputs`, by the name of the argument."""
        return None if optional and not self.has_arg(name) else self.arg(name)

    def attribute(self, name: str) -> Any:
        """As `NodeInputs`: a text, a number or a list of numbers, which must be known now."""
        value = self.args.get(name)
        if value is None or isinstance(value, str):
            return value
        data = self.array(name)
        return data.item() if data.size == 1 else data.tolist()

    def given(self) -> list[Expr]:
        """The tensors of an operation of any number of them."""
        return self.listed("values")

    def listed(self, name: str) -> list[Expr]:
        """An argument of several tensors."""
        value = self.args.get(name)
        values = [value] if isinstance(value, Expr) else value
        if not isinstance(values, list) or not values or not all(isinstance(item, Expr) for item in values):
            self.bad(f"its argument {name} is no list of tensors")
        return values

    def array(self, name: str, default: Any = None) -> np.ndarray:
        """An argument that must be known now, as an array."""
        value = self.args.get(name)
        if value is None and default is not None:
            return np.asarray(default)
        if isinstance(value, Expr) and not isinstance(value, Constant):
            self.unsupported(f"its argument {name} is computed at run time")
        if not isinstance(value, Constant):
            self.bad(f"its argument {name} is {'missing' if value is None else 'no tensor'}")
        return value.data

    def number(self, name: str, default: Any = None) -> Any:
        """An argument that is one number known now."""
        data = self.array(name, default)
        if data.size != 1:
            self.bad(f"its argument {name} has {data.size} numbers")
        return data.reshape(-1)[0].item()

    def numbers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """An argument that is a list of whole numbers known now."""
        return [int(value) for value in self.array(name, default).reshape(-1)]
