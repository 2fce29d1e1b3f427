"""One operator of a foreign graph as its converter sees it; the formats derive their own from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from tilewright.errors import ModelError, UnsupportedError
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type_of import tensor_type_of


class Refusing(Protocol):
    """A node that names itself where its arguments contradict each other."""

    def bad(self, reason: str) -> NoReturn:
        """Raise an error of this node with the reason."""


class Labelled:
    """Part of a model that errors name by its `label`."""

    def __init__(self, label: str) -> None:
        self._label = label

    @property
    def label(self) -> str:
        """The node as messages name it."""
        return self._label

    def operands(self) -> Sequence[Any]:
        """The inputs as messages list them, with their types."""
        return ()

    def bad(self, reason: str) -> NoReturn:
        """Raise the `ModelError` of this node: the file contradicts itself."""
        raise ModelError(f"{self.label}: {reason}")

    def unsupported(self, reason: str) -> NoReturn:
        """Raise the `UnsupportedError` of this node."""
        raise UnsupportedError(f"{self.label}: {reason}")


class NodeInputs(Labelled):
    """The inputs of an operator, expressions or None where one is left out, and how messages name it."""

    def __init__(self, label: str, inputs: Sequence[Expr | None]) -> None:
        super().__init__(label)
        self.inputs = list(inputs)

    def has(self, index: int) -> bool:
        """True where the optional input `index` is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def __getitem__(self, index: int) -> Expr:
        """Input `index`; a missing one is a `ModelError`."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise ModelError(f"{self.label} lacks its input {index}")
        return value

    def given(self) -> list[Expr]:
        """All inputs, none of which may be missing (variadic operators)."""
        return [self[index] for index in range(len(self.inputs))]

    def operands(self) -> Sequence[Any]:
        return self.inputs

    def shape(self, value: int | Expr = 0) -> tuple[Any, ...]:
        """Shape of an input (by index) or of any expression."""
        return tensor_type_of(self[value] if isinstance(value, int) else value).shape

    def dtype(self, value: int | Expr = 0) -> Any:
        """Element type of an input (by index) or of any expression, in most formats by its name."""
        return str(tensor_type_of(self[value] if isinstance(value, int) else value).dtype)

    def rank(self, value: int | Expr = 0) -> int:
        """Number of dimensions of an input (by index) or of any expression."""
        return len(self.shape(value))

    def operand(self, name: str, index: int, optional: bool) -> Expr | None:
        """Input `index`, which formats of named inputs call `name`; None for an optional one that is left out."""
        return None if optional and not self.has(index) else self[index]

    def attribute(self, name: str) -> Any:
        """The attribute `name` as the format holds it, or None where the node has none of that name."""
        raise NotImplementedError

    def default(self, value: Any) -> Any:
        """The default of an attribute in the precision of the format."""
        return value

    def axis(self, axis: int, rank: int | None = None) -> int:
        """`axis` counted from the front for `rank` (default: that of input 0); out of range is a `ModelError`."""
        rank = self.rank() if rank is None else rank
        if not -rank <= axis < rank:
            raise ModelError(f"{self.label}: axis {axis} is out of range for {rank} dimensions")
        return axis % rank

    def every_axis(self, axes: Sequence[Any]) -> Sequence[int]:
        """`axes` of input 0 counted from the front, all of them where none are given."""
        return [self.axis(int(axis)) for axis in axes] or list(range(self.rank()))

    def typed(self, value: Expr) -> Expr:
        """An input in the element type that the operator computes in: in most formats its own."""
        return value


class GraphNode(NodeInputs):
    """`operator` is the foreign name, `name` that of the node; `inputs` are expressions, None where one is left out."""

    def __init__(self, operator: str, name: str, inputs: Sequence[Expr | None]) -> None:
        super().__init__(f"{operator} {name!r}", inputs)
        self.operator = operator
        self.name = name

    def given(self) -> list[Expr]:
        """All inputs, of which there must be one, and none may be missing (variadic operators)."""
        return [self[index] for index in range(max(len(self.inputs), 1))]

    def static(self, index: int, what: str) -> np.ndarray:
        """The value of input `index`, which must be known at import time; `what` names it in the error."""
        value = self[index]
        if not isinstance(value, Constant):
            self.unsupported(f"its {what} (input {index}) is computed at run time")
        return value.data

    def fixed(self, index: int = 0, what: str = "extents") -> tuple[int, ...]:
        """The shape of input `index`, which must have no symbolic dimension."""
        shape = self.shape(index)
        if not all(isinstance(extent, int) for extent in shape):
            self.unsupported(f"its input {index} has symbolic {what}: {list(map(str, shape))}")
        return shape
