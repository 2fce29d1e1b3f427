"""The walk over a foreign graph: nodes converted in order, constants folded on the way, problems collected."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from tilewright.errors import (
    InternalError,
    ModelError,
    NoTruthValue,
    TilewrightError,
    TypeMismatchError,
    UnsupportedError,
)
from tilewright.frontend.converters import Converter, Converters
from tilewright.frontend.finish import Finisher, fold_call
from tilewright.frontend.graph_node import GraphNode, Labelled, NodeInputs
from tilewright.frontend.signature import apply
from tilewright.frontend.unsupported import Unsupported
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type_of import type_of

#: What Python and NumPy raise where an operator's attributes and the values of its inputs do not go together.
_OF_DATA = (
    ValueError, IndexError, KeyError, TypeError, AttributeError, ArithmeticError, MemoryError, AssertionError,
    RecursionError,
)  # fmt: skip


class Unavailable:
    """The value of a node that could not be converted; nodes that use it are skipped."""


UNAVAILABLE = Unavailable()

#: The reason why a node cannot be converted whose converter needs a number where an extent is symbolic.
NEEDS_SIZES = "it needs a size that is symbolic here; pass it with input_shapes"

Result = TypeVar("Result")
Value = Any  # an expression, a list of them, or UNAVAILABLE


class GraphWalk:
    """Converts nodes in order; `values` has what there is by the names (or other keys) of the foreign graph."""

    def __init__(self, label: str, converters: Converters) -> None:
        self.label = label
        self.values: dict[Hashable, Value] = {}
        self.missing = Unsupported()
        self._converters = converters
        self._finisher = Finisher(fold_call)

    def value(self, key: Hashable, where: str) -> Value:
        """The value called `key`. Raises `ModelError` where nothing before `where` defines it."""
        if key not in self.values:
            raise ModelError(f"{self.label}: {where} reads {key!r}, which no input, constant or node before it defines")
        return self.values[key]

    def step(self, node: GraphNode, results: Sequence[Hashable]) -> None:
        """Convert `node` and enter its values under the names `results`; further values are left out."""
        self.values.update(dict.fromkeys(results, UNAVAILABLE))
        converter = self._converters.find(node.operator)
        found = self.convert(node, node.operator, node.name, converter) or []
        self.values.update(zip(results, found))

    def convert(
        self, node: NodeInputs, operator: str, span: str, converter: Converter | None, kind: str = "operator"
    ) -> list[Value] | None:
        """The results of `node`, whose calls get `span` as their source; None where it cannot be converted.

        A missing converter, and what one does not support, is noted in `missing`.
        """
        if converter is None:
            self.missing.add(operator, node.label, f"no converter for the {kind} {operator}")
            return None
        if any(value is UNAVAILABLE for value in flat(node.operands())):
            return None
        try:
            return attempt(node, lambda: self.converted(converter, node, span))
        except UnsupportedError as error:
            self.missing.add(operator, node.label, str(error).removeprefix(f"{node.label}: "))
            return None

    def converted(self, converter: Converter, node: NodeInputs, span: str) -> list[Value]:
        """The finished results of a converter."""
        result = apply(converter, node)
        done: dict[Expr, Expr] = {}
        values = list(result) if isinstance(result, list | tuple) else [result]
        return [self.finished(value, span, done) for value in values]

    def finished(self, value: Value, span: str, done: dict[Expr, Expr]) -> Value:
        """A result whose calls have `span` as their source, those on constants folded."""
        return self._finisher.finish(value, span, done)

    def results(self, keys: Sequence[Hashable]) -> list[Expr]:
        """The values of the outputs. Raises `UnsupportedError` naming all that cannot be converted."""
        found = [self.value(key, "an output of the model") for key in keys]
        self.missing.refuse(self.label)
        return found


def attempt(node: Labelled, convert: Callable[[], Result]) -> Result:
    """The result of `convert`; what goes wrong in it is raised as the error of `node` that it is."""
    try:
        return convert()
    except NoTruthValue:
        node.unsupported(NEEDS_SIZES)
    except TypeMismatchError as error:
        raise ModelError(f"{node.label} does not fit its inputs: {error}") from None
    except TilewrightError:
        raise
    except _OF_DATA as error:
        raise ModelError(_does_not_fit(node, error)) from error
    except Exception as error:
        raise InternalError(f"{node.label}: its conversion failed with {type(error).__name__}: {error}.") from error


def flat(inputs: Sequence[Any]) -> list[Any]:
    """Inputs with lists among them spread."""
    return [item for value in inputs for item in (flat(value) if isinstance(value, list | tuple) else [value])]


def _does_not_fit(node: Labelled, error: Exception) -> str:
    types = [_spelled(value) for value in flat(node.operands())]
    return f"{node.label} does not fit its inputs ({', '.join(types) or 'none'}): {type(error).__name__}: {error}"


def _spelled(value: Any) -> str:
    if isinstance(value, Constant) and not value.data.shape:
        return f"{value.data.dtype} {value.data}"
    return str(type_of(value)) if isinstance(value, Expr) else "none" if value is None else type(value).__name__
