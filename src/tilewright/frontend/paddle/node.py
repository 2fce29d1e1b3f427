"""One operator of a Paddle program as its converter sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend.converters import Converters
from tilewright.frontend.graph_node import GraphNode
from tilewright.frontend.paddle.program import Operation
from tilewright.relay.ir.expr import Constant, Expr

#: The one table of converters of the format.
converts = Converters("paddle")


class PaddleNode(GraphNode):
    """`inputs` are expressions, lists of them, or None; `attrs` plain data by name."""

    def __init__(self, operation: Operation, inputs: Sequence[Any], by_name: dict[str, list[Any]]) -> None:
        super().__init__(operation.kind, operation.name, inputs)
        self.attrs = operation.attrs
        self.count = sum(operation.counts.values()) or len(operation.results)
        self.by_name = by_name  # inputs of old programs, by the names of their parameters

    def attribute(self, name: str) -> Any:
        return self.attrs.get(name)

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute; one that is missing and has no default is a `ModelError`."""
        if name not in self.attrs and default is None:
            self.bad(f"its attribute {name} is missing")
        value = self.attrs.get(name, default)
        return default if value is None else value

    def listed(self, index: int = 0) -> list[Expr]:
        """An input of several tensors."""
        value: Any = self.inputs[index] if index < len(self.inputs) else None
        values = value if isinstance(value, list) else [value]
        if not values or any(item is None for item in values):
            self.bad(f"its input {index} is no list of tensors")
        return values

    def numbers(self, index: int, name: str, default: Any = None) -> list[int]:
        """Whole numbers: input `index` where it is given and known, else the attribute `name`.

        Old programs have some as tensors, one or several, by the names `{name}Tensor` and `{name}TensorList`.
        """
        value: Any = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            spelled = "".join(part.capitalize() for part in name.split("_"))
            for key in (f"{spelled}Tensor", f"{spelled}TensorList", spelled, "ShapeTensor" if name == "shape" else ""):
                if self.by_name.get(key):
                    value = self.by_name[key]
                    break
        if value is None:
            found = self.attrs.get(name, default)
            if found is None:
                self.bad(f"its attribute {name} is missing")
            return [int(item) for item in np.reshape(found, -1)]
        items = value if isinstance(value, list) else [value]
        return [int(number) for item in items for number in self._known(item, name).reshape(-1)]

    def number(self, index: int, name: str, default: Any = None) -> Any:
        """One number: input `index` where it is given and known, else the attribute `name`."""
        value: Any = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            return self.attr(name, default)
        return self._known(value, name).reshape(-1)[0].item()

    def _known(self, value: Any, name: str) -> np.ndarray:
        if not isinstance(value, Constant):
            self.unsupported(f"its {name} is computed at run time; pass the shapes of the inputs")
        return value.data
