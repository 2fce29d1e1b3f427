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
from tilewright.frontend.tensorflow.tensors import array_of, shape_of_proto
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
        """Keys and values of a hash table, by the name of its node; None where the file does not say."""

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
        """As `NodeInputs`."""
        return self.values

    def given(self) -> list[Expr]:
        """All inputs as tensors."""
        return [self[index] for index in range(max(len(self.values), 1))]

    def has(self, index: int) -> bool:
        """True where there is an input `index`."""
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
        """True where every input is a shape or known whole numbers, and one of them a shape."""
        known = all(dims_of(value) is not None for value in self.values)
        return known and any(isinstance(value, Dims) for value in self.values)

    # ----------------------------------------------------------------------------------------------------- attributes
    def _attribute(self, name: str) -> Record | None:
        return self.attributes.get(name)

    def i(self, name: str, default: int | None = None) -> int:
        """A whole number; absent without a default is a `ModelError`."""
        found = self._attribute(name)
        if found is None and default is None:
            self.bad(f"lacks its attribute {name}")
        return int(found.i) if found is not None else int(default or 0)

    def f(self, name: str, default: float = 0.0) -> float:
        """A number."""
        found = self._attribute(name)
        return float(found.f) if found is not None else default

    def b(self, name: str, default: bool = False) -> bool:
        """A truth value."""
        found = self._attribute(name)
        return bool(found.b) if found is not None else default

    def s(self, name: str, default: str = "") -> str:
        """A text."""
        found = self._attribute(name)
        return bytes(found.s).decode("utf-8", "replace") if found is not None else default

    def i_list(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """Whole numbers."""
        found = self._attribute(name)
        return [int(number) for number in found.list.i] if found is not None else list(default)

    def f_list(self, name: str) -> list[float]:
        """Numbers."""
        found = self._attribute(name)
        return [float(number) for number in found.list.f] if found is not None else []

    def type(self, name: str, default: str | None = None) -> str:
        """An element type."""
        found = self._attribute(name)
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
        found = self._attribute(name)
        return int(found.type) if found is not None else 0

    def shape_attribute(self, name: str) -> tuple[int, ...] | None:
        """A shape, -1 where open; None for an open rank or where there is none."""
        found = self._attribute(name)
        return shape_of_proto(found.shape) if found is not None else None

    def tensor(self, name: str) -> np.ndarray:
        """A constant tensor."""
        found = self._attribute(name)
        if found is None:
            self.bad(f"lacks its attribute {name}")
        return array_of(found.tensor, self.label)

    def function(self, name: str) -> str:
        """The name of a function."""
        found = self._attribute(name)
        if found is None:
            self.bad(f"lacks its attribute {name}")
        return str(found.func.name)

    def functions(self, name: str) -> list[str]:
        """The names of a list of functions."""
        found = self._attribute(name)
        return [str(one.name) for one in found.list.func] if found is not None else []

    @property
    def last(self) -> bool:
        """True where channels are the last axis."""
        return not self.s("data_format", "NHWC").startswith("NC")
