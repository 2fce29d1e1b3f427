"""`torch.compile(backend="tilewright")`: graphs of TorchDynamo compiled by this package, in training by AOTAutograd.

PyTorch finds the function `tilewright` through the entry-point group ``torch_dynamo_backends``. AOTAutograd gives it a
forward graph, and in training a backward one, of functional ATen operators; parameters are inputs of both. A graph with
an operator that has no converter runs in PyTorch, with a warning that names the operator. Tensors are read and handed
back where they lie, by DLPack; one whose elements do not lie in order is copied first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.compile import compile as compile_model
from tilewright.errors import EnvironmentError_, UserError
from tilewright.frontend.torch.graph import convert_graph, without_converter
from tilewright.runtime.dlpack import import_array
from tilewright.runtime.model import Model


class FallbackWarning(UserWarning):
    """A graph runs in PyTorch, because something in it is not supported."""


def tilewright(graph: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The backend: what runs in place of `graph`, a `torch.fx.GraphModule`.

    Raises `EnvironmentError_` when the `torch` package is not installed.
    """
    try:
        from torch._dynamo.backends.common import aot_autograd
    except ImportError:
        raise EnvironmentError_("torch.compile needs the torch package, which is not installed") from None
    compiled: Callable[..., Any] = aot_autograd(fw_compiler=_boxed, decompositions=without_converter())(
        graph, example_inputs
    )
    return compiled


def _boxed(graph: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """As AOTAutograd wants it: a function of one list, which it may clear."""
    # torch is optional
    from functorch.compile import make_boxed_func

    boxed: Callable[..., Any] = make_boxed_func(compile_graph(graph))
    return boxed


def compile_graph(graph: Any) -> Callable[..., Any]:
    """A function of the inputs of `graph`, a `torch.fx.GraphModule` of ATen operators, that returns its outputs."""
    try:
        converted = convert_graph(graph.graph)
        model = compile_model(converted.module) if converted.module is not None else None
    except UserError as error:
        warnings.warn(f"a graph runs in PyTorch, not in Tilewright: {error}", FallbackWarning, stacklevel=2)
        run: Callable[..., Any] = graph.forward
        return run

    def call(*args: Any) -> list[Any]:
        results = _run(model, [args[place] for place in converted.inputs])
        return [_output(place, results, args) for place in converted.outputs]

    return call


def _run(model: Model | None, tensors: Sequence[Any]) -> list[Any]:
    """The results on tensors, as tensors."""
    if model is None:
        return []
    # torch is optional
    import torch

    arrays = [import_array(tensor.detach().contiguous()) for tensor in tensors]
    results = model.run(dict(zip([spec.name for spec in model.inputs], arrays)))
    return [torch.from_dlpack(result) if result.dtype != bool else torch.from_numpy(result) for result in results]


def _output(place: tuple[str, Any], results: Sequence[Any], args: Sequence[Any]) -> Any:
    """One output: a result, an input as it came, or a number."""
    kind, value = place
    return results[value] if kind == "result" else args[value] if kind == "input" else value
