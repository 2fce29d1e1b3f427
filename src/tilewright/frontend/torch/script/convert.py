"""A TorchScript module, in memory or in a file, to a Relay module for inputs of given shapes or values."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tilewright.errors import ModelError, ShapeError, UnsupportedError
from tilewright.frontend.builders.complex_numbers import Complex, to_last_axis
from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.source import Source
from tilewright.frontend.torch.archive import check_script
from tilewright.frontend.torch.script.values import Module, Traced, leaves
from tilewright.frontend.torch.script.walk import Raised, Walker
from tilewright.relay.ir.expr import Expr, Function, GlobalVar, Tuple, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.support.open_sizes import shapes_by_name

#: Times that a program is walked until its states keep their shapes and its other attributes their values.
_MOST_WALKS = 4


def load_script(source: Any) -> Any:
    """The ScriptModule that `source` is, or that the file named so, or the bytes, hold.

    Read by the loader of TorchScript, in C++: it makes tensors, numbers, lists and objects of the classes that the file
    itself declares; one of those with code of their own for this is refused. Raises `ModelError` for a damaged file.
    """
    if isinstance(source, torch.jit.ScriptModule):
        return source
    check_script(Source.of(source))
    given: Any = (
        io.BytesIO(source) if isinstance(source, bytes | bytearray | memoryview) else str(Path(os.fspath(source)))
    )
    try:
        return torch.jit.load(given, map_location="cpu")
    except Exception as error:  # whatever the reader of torch meets in a damaged archive
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"the TorchScript archive cannot be read: {first}") from None


def convert_script(module: Any, examples: Mapping[str, Any]) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for `module`, and its inputs: the tensors among `examples`, one an argument of `forward`.

    Other arguments are fixed to their values. Attributes that the program changes are more inputs and outputs, under
    their names, if they are tensors; others are fixed to the values that they have in the second run.
    """
    graph = module.forward.graph.copy() if hasattr(module.forward, "graph") else module.graph.copy()
    torch._C._jit_pass_inline(graph)
    states: dict[str, Any] = {}
    for _ in range(_MOST_WALKS):
        walker, params, results = _walk(module, graph, examples, states)
        new = {name: _at_rest(value) for name, value in walker.changed().items()}
        if all(name in states and _alike(states[name], value) for name, value in new.items()):
            return _finished(walker, params, results)
        states = new
    raise UnsupportedError("the attributes of the TorchScript module change their shapes or values in every run")


def arguments_of(module: Any) -> list[tuple[str, str, Any]]:
    """(name, type, default) of each argument of `forward`; the default is `...` where there is none."""
    declared = module.forward.schema.arguments if hasattr(module.forward, "schema") else []
    return [
        (one.name, str(one.type), one.default_value if one.has_default_value() else ...) for one in list(declared)[1:]
    ]


def examples_by_shape(module: Any, input_shapes: Mapping[str, Sequence[Any]] | None) -> dict[str, Any]:
    """float32 zeros in the shapes given, and the defaults of the other arguments.

    Raises `ShapeError` naming the arguments of which neither is known.
    """
    arguments = arguments_of(module)
    given, found, missing = shapes_by_name(input_shapes, [entry[0] for entry in arguments]), {}, []
    unknown = [name for name in given if name not in [entry[0] for entry in arguments]]
    if unknown:
        raise ShapeError(f"the program has no input named {unknown[0]!r}; it has {', '.join(e[0] for e in arguments)}")
    for name, kind, default in arguments:
        if name in given:
            if any(not isinstance(extent, int) for extent in given[name]):
                raise ShapeError(f"the input {name!r} of TorchScript needs a shape of numbers, not {given[name]}")
            found[name] = torch.zeros(tuple(given[name]))
        elif default is not ...:
            found[name] = default
        else:
            missing.append(f"{name}: {kind}")
    if missing:
        raise ShapeError(
            "a TorchScript program does not say of which shapes its inputs are; pass input_shapes for float32, "
            f"or example inputs, tilewright.compile(module, (x, …)): {', '.join(missing)}"
        )
    return found


def bound(module: Any, given: Any) -> dict[str, Any]:
    """Example inputs, a tuple or a mapping, by the names of the arguments of `forward`."""
    arguments = arguments_of(module)
    values = dict(given) if isinstance(given, Mapping) else dict(zip([entry[0] for entry in arguments], given))
    for name, kind, default in arguments:
        if name not in values:
            if default is ...:
                raise ShapeError(f"there is no example for the argument {name!r} ({kind}) of the TorchScript program")
            values[name] = default
    return {name: values[name] for name, _, _ in arguments}


def _walk(module: Any, graph: Any, examples: Mapping[str, Any], states: Mapping[str, Any]) -> tuple[Walker, Any, Any]:
    """The program walked once with attributes as `states` says; its parameters, and what it returns."""
    params: list[Var] = []
    walker = Walker({})

    def opened(name: str, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(opened(f"{name}_{index}", item) for index, item in enumerate(value))
        if not isinstance(value, torch.Tensor):
            return value
        variable, made = walker.caller.fresh(name, value)
        params.append(variable)
        return made

    values = [opened(name, value) for name, value in examples.items()]
    walker.states.update({name: opened(name, value) for name, value in states.items()})
    names = [one.debugName() for one in graph.inputs()]
    try:
        results = walker.block(graph, dict(zip(names, [Module(module._c, ""), *values])))
    except Raised as error:
        raise ModelError(f"the program raises an exception for these inputs: {error}") from None
    return walker, params, results


def _at_rest(value: Any) -> Any:
    """A tensor of the shape and type that an attribute has after a run, or its value where that is known."""
    return torch.zeros(tuple(value.fake.shape), dtype=value.fake.dtype) if isinstance(value, Traced) else value


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and one.dtype == other.dtype
    return type(one) is type(other) and one == other


def _finished(walker: Walker, params: list[Var], results: Sequence[Any]) -> tuple[IRModule, list[InputSpec]]:
    """The module of what was walked: outputs, then the new values of states."""
    outputs = [leaf for leaf in leaves(list(results)) if isinstance(leaf, Traced | torch.Tensor)]
    names = ["output"] if len(outputs) == 1 else [f"output{index}" for index in range(len(outputs))]
    changes = {name: value for name, value in walker.changed().items() if isinstance(value, Traced | torch.Tensor)}
    values = [walker.caller.traced(value).expr for value in (*outputs, *changes.values())]
    exprs: list[Expr] = [to_last_axis(value) if isinstance(value, Complex) else value for value in values]
    if not exprs:
        raise UnsupportedError("the program returns no tensor")
    body = exprs[0] if len(exprs) == 1 else Tuple(exprs)
    main = Function(params, body, attrs={"output_names": (*names, *changes)})
    specs = [InputSpec(param.name, tensor_type_of(param)) for param in params]
    return IRModule({GlobalVar("main"): main, **walker.functions}), specs
