"""One operator of a TensorFlow graph as its converter sees it: inputs, attributes, functions, variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.frontend.converters import Converters
from tilewright.frontend.graph_node import GraphNode
from tilewright.frontend.messages import Record
from tilewright.frontend.tensorflow.schema import described, type_name
from tilewright.frontend.tensorflow.tensors import array_of
from tilewright.frontend.tensorflow.values import Dims, dims_of, expression
from tilewright.relay.ir.expr import Constant, Expr, Function, GlobalVar

#: The one table of converters of the format.
converts = Converters("tensorflow")


class GraphImporter(ABC):
    """The state shared by the operators of one program while it is imported."""

    #: Loops, as functions of the module.
    loops: dict[GlobalVar, Function]

    @abstractmethod
    def call(self, function: str, arguments: Sequence[Any], scope: str) -> list[Any]:
        """The results of a function of the library."""

    @abstractmethod
    def frame(self, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The test and the body of the loop of TensorFlow 1 that the Exit `name` leaves."""

    @abstractmethod
    def table(self, name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
        """Keys and values of a hash table, by the name of its node; None if the file lacks them."""

    @abstractmethod
    def variable(self, name: str) -> Constant:
        """The value of a variable, by the name of its node."""


class TfNode(GraphNode):
    """`values` are the inputs as they came, shapes and lists among them; `inputs` the same as expressions."""

    def __init__(self, record: Record, name: str, values: Sequence[Any], importer: GraphImporter) -> None:
        super().__init__(record.op, name, [])
        self.record = record
        #: Of axes how far elements of a window are apart, for convolutions of data in blocks (`dilation.py`).
        self.dilation: Mapping[int, int] = {}
        self.values = list(values)
        self.attributes: Mapping[str, Record] = record.attr
        self.importer = importer

    def __getitem__(self, index: int) -> Expr:
        if not 0 <= index < len(self.values):
            self.bad(f"lacks its input {index}")
        value = expression(self.values[index])
        if not isinstance(value, Expr):
            self.unsupported(f"its input {index} is no tensor")
        return value

    def operands(self) -> Sequence[Any]:
        return self.values

    def given(self) -> list[Expr]:
        """All inputs as tensors."""
        return [self[index] for index in range(max(len(self.values), 1))]

    def has(self, index: int) -> bool:
        """True if there is an input `index`."""
        return index < len(self.values)

    def dims(self, index: int, what: str = "shape") -> tuple[Any, ...]:
        """Whole numbers of an input that are known at import time, symbolic dimensions among them."""
        if index >= len(self.values):
            self.bad(f"lacks its input {index}")
        found = dims_of(self.values[index])
        if found is None:
            self.unsupported(f"its {what} (input {index}) is computed at run time")
        return found

    def ints(self, index: int, what: str = "axes") -> list[int]:
        """As `dims`, without symbolic dimensions."""
        found = self.dims(index, what)
        if not all(isinstance(number, int) for number in found):
            self.unsupported(f"its {what} (input {index}) has symbolic dimensions")
        return list(found)

    def all_dims(self) -> bool:
        """True if every input is a shape or constant integers, and one of them a shape."""
        known = all(dims_of(value) is not None for value in self.values)
        return known and any(isinstance(value, Dims) for value in self.values)

    # ----------------------------------------------------------------------------------------------------- attributes
    def attr(self, name: str, default: Any = None) -> Any:
        """A number, truth value, text or list of them; absent without a default is a `ModelError`."""
        found = self.attributes.get(name)
        if found is None and default is None:
            self.bad(f"lacks its attribute {name}")
        kind, value = next(iter(found.given().items()), ("", default)) if found is not None else ("", default)
        if kind == "s":
            return bytes(value).decode("utf-8", "replace")
        return list(next(iter(value.given().values()), ())) if kind == "list" else value

    def attribute(self, name: str) -> Any:
        return self.attr(name) if name in self.attributes else None

    def type(self, name: str, default: str | None = None) -> str:
        """An element type."""
        found = self.attributes.get(name)
        if found is None:
            if default is None:
                self.bad(f"lacks its attribute {name}")
            return default
        kind = type_name(found.type)
        if kind is None:
            self.unsupported(f"{described(found.type)} is not supported")
        return kind

    def type_code(self, name: str) -> int:
        """The number of an element type; 0 where it is not given."""
        return int(self.attr(name, 0))

    def tensor(self, name: str) -> np.ndarray:
        """A constant tensor."""
        if name not in self.attributes:
            self.bad(f"lacks its attribute {name}")
        return array_of(self.attributes[name].tensor, self.label)

    def function(self, name: str) -> str:
        """The name of a function."""
        return str(self.attr(name).name)

    def functions(self, name: str) -> list[str]:
        """The names of a list of functions."""
        return [str(one.name) for one in self.attr(name, [])]

    @property
    def last(self) -> bool:
        """True where channels are the last axis."""
        return not self.attr("data_format", "NHWC").startswith("NC")
