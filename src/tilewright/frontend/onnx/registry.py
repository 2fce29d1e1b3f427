"""The one table of converters: (domain, ONNX operator) to a list of (first opset, function).

A converter is a function of one `OnnxNode` that returns the Relay expression of the node's output, or a list of them.
An operator whose meaning changed has one entry per meaning; the entry with the highest first opset that the model's
opset reaches is the one that applies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tilewright.relay.ir.expr import Expr
from tilewright.support import plugins

if TYPE_CHECKING:
    from tilewright.frontend.onnx.node import OnnxNode

Converter = Callable[["OnnxNode"], "Expr | Sequence[Expr | None]"]

Function = TypeVar("Function", bound=Converter)

#: The domain of onnxruntime's own operators.
MICROSOFT = "com.microsoft"

_TABLE: dict[tuple[str, str], list[tuple[int, Converter]]] = {}


def converts(*operators: str, since: int = 1, domain: str = "") -> Callable[[Function], Function]:
    """Register a function as the converter of `operators` from opset `since` on, until a later entry takes over."""

    def register(function: Function) -> Function:
        for operator in operators:
            entries = _TABLE.setdefault((domain, operator), [])
            entries.append((since, function))
            entries.sort(key=lambda entry: entry[0])
            plugins.note("converter", f"{domain}.{operator} {since}", function)
        return function

    return register


def find_converter(domain: str, operator: str, opset: int) -> Converter | None:
    """The converter of `operator` at `opset`, or None when there is none."""
    chosen = None
    for since, function in _TABLE.get((domain, operator), ()):
        if since <= opset:
            chosen = function
    return chosen


def supported_operators() -> list[tuple[str, str, int]]:
    """Every (domain, operator, first opset) that has a converter, sorted."""
    return sorted((domain, name, entries[0][0]) for (domain, name), entries in _TABLE.items())
