"""The tables of converters: Keras layers, and operations that stand in a graph without a layer (`keras.ops`).

The converter of a layer is a function of a `Layer` and of the arguments of the layer's `call`, tensors as Relay
expressions, by Keras' names:

    @converts("Dense", passes_mask=True)
    def convert_dense(layer, inputs): ...

It returns an expression, or lists, tuples and dictionaries of them. An argument `mask`, or `NAME_mask` beside an
argument NAME, is given the mask that came with the tensor. With `passes_mask` the mask of the first argument goes on
with the result; a converter that makes one calls `layer.set_mask`. Layers of other packages are registered by their
own class name, or the name that they are registered under in Keras (`package>Name`), with `custom=True`.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from tilewright.support import plugins

Converter = Callable[..., Any]

Function = TypeVar("Function", bound=Converter)


class Entry(NamedTuple):
    """A converter, and whether the mask of the first argument is that of the result.

    `refuses` marks one that only says why a layer is not supported.
    """

    convert: Converter
    passes_mask: bool
    refuses: bool


_LAYERS: dict[tuple[bool, str], Entry] = {}
_OPERATIONS: dict[str, Converter] = {}


def converts(
    *layers: str, passes_mask: bool = False, custom: bool = False, refuses: bool = False
) -> Callable[[Function], Function]:
    """Register a function as the converter of `layers`, by class."""

    def register(function: Function) -> Function:
        for layer in layers:
            _LAYERS[custom, layer] = Entry(function, passes_mask, refuses)
            plugins.note("keras converter", layer, function)
        return function

    return register


def layers(table: Mapping[str, Converter], passes_mask: bool = False) -> None:
    """Register functions as converters of layers, whose names are separated by spaces."""
    for names, function in table.items():
        converts(*names.split(), passes_mask=passes_mask)(function)


def operation(*operations: str) -> Callable[[Function], Function]:
    """Register a function as the converter of operations of `keras.ops`, by class (`Matmul`).

    It is a function of the operation's arguments, tensors where they are annotated so (`layer.call_operation`), by
    keyword of what its constructor was given, and of the `Operation` where its first parameter is annotated so.
    """

    def register(function: Function) -> Function:
        for name in operations:
            _OPERATIONS[name] = function
            plugins.note("keras operation", name, function)
        return function

    return register


def operations(kind: str, table: Mapping[str, Callable[..., Any]]) -> None:
    """Register functions of operands, parameters without default, that are annotated `kind`, or the kinds that it
    lists, the last for all that follow; names are separated by spaces."""
    for names, function in table.items():
        parameters = inspect.signature(function).parameters.values()
        annotations = itertools.chain(kind.split(), itertools.repeat(kind.split()[-1]))
        kinds = [one.replace(annotation=next(annotations)) if one.default is one.empty else one for one in parameters]
        converter = partial(function)
        converter.__signature__ = inspect.Signature(kinds)  # type: ignore[attr-defined]
        operation(*names.split())(converter)


def find_layer(name: str, custom: bool) -> Entry | None:
    """The converter of a layer of Keras or of another package, or None."""
    return _LAYERS.get((custom, name))


def find_operation(name: str) -> Converter | None:
    """The converter of an operation, or None."""
    return _OPERATIONS.get(name)


def known_layers() -> list[str]:
    """The layers of Keras that have a converter so far, sorted."""
    return sorted(name for (custom, name), entry in _LAYERS.items() if not custom and not entry.refuses)


def refused_layers() -> list[str]:
    """The layers of Keras that are refused with a reason of their own, sorted."""
    return sorted(name for (custom, name), entry in _LAYERS.items() if not custom and entry.refuses)


def known_operations() -> list[str]:
    """The operations that have a converter so far, sorted."""
    return sorted(_OPERATIONS)
