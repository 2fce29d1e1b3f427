"""`torch.compile(backend="tilewright")`: graphs of TorchDynamo compiled by this package, in training by AOTAutograd.

PyTorch finds the function `tilewright` through the entry-point group ``torch_dynamo_backends``. AOTAutograd gives it a
forward graph, and in training a backward one, of functional ATen operators; parameters are inputs of both. In inference
they become constants, which are packed and folded, and are watched: a graph whose weights change takes them as inputs
again. A graph with an operator that has no converter runs in PyTorch, with a warning that names the operator. Tensors
are read and handed back where they lie; one whose elements do not lie in order is copied first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.compile import compile as compile_model
from tilewright.errors import EnvironmentError_, UnsupportedError, UserError
from tilewright.frontend.torch.graph import ConvertedGraph, convert_graph, without_converter
from tilewright.frontend.torch.views import replay
from tilewright.frontend.torch.weights import Snapshot, static_places
from tilewright.runtime.dlpack import import_array
from tilewright.runtime.model import Model

#: Calls for which weights that changed must stay the same before they become constants again; doubled each time.
_PATIENCE = 64

#: What `torch.compile(..., options=)` may set.
_OPTIONS = {"freezing": True, "threads": None, "exact_rounding": False}


class FallbackWarning(UserWarning):
    """A graph runs in PyTorch, because something in it is not supported."""


def tilewright(
    graph: Any, example_inputs: Sequence[Any], options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The backend: what runs in place of `graph`, a `torch.fx.GraphModule`.

    `options`: "freezing", whether weights become constants in inference (default True); "threads" and
    "exact_rounding", as of `tilewright.compile`. Raises `UnsupportedError` for another one, `EnvironmentError_` when
    the `torch` package is not installed.
    """
    try:
        from torch._dynamo.backends.common import aot_autograd
    except ImportError:
        raise EnvironmentError_("torch.compile needs the torch package, which is not installed") from None
    unknown = sorted(set(options or ()) - set(_OPTIONS))
    if unknown:
        raise UnsupportedError(f"the backend has no option {unknown[0]!r}; its options are: {', '.join(_OPTIONS)}")
    chosen = {**_OPTIONS, **(options or {})}

    def for_training(part: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        return _boxed(CompiledGraph(part, (), chosen["threads"], chosen["exact_rounding"]))

    def for_inference(part: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        static = static_places(part.graph) if chosen["freezing"] else ()
        return _boxed(CompiledGraph(part, static, chosen["threads"], chosen["exact_rounding"]))

    compiled: Callable[..., Any] = aot_autograd(
        fw_compiler=for_training, inference_compiler=for_inference, decompositions=without_converter()
    )(graph, example_inputs)
    return compiled


def _boxed(call: Callable[..., Any]) -> Callable[..., Any]:
    """As AOTAutograd wants it: a function of one list, which it may clear."""
    # torch is optional
    from functorch.compile import make_boxed_func

    boxed: Callable[..., Any] = make_boxed_func(call)
    return boxed


class CompiledGraph:
    """A function of the inputs of `graph`, a `torch.fx.GraphModule` of ATen operators, that returns its outputs.

    The inputs at the places `static` are constants as long as they do not change. Compiled at the first call, which
    is when their values are known.
    """

    def __init__(self, graph: Any, static: Sequence[int], threads: int | None, exact_rounding: bool = False) -> None:
        self._graph, self._threads, self._exact_rounding = graph, threads, exact_rounding
        self._static = tuple(static)
        self._patience = self._wait = 0  # calls for which changed weights must stay the same, and how many are left
        self._seen: Snapshot | None = None  # of the weights in the last call, where they are or may become constants
        self._frozen: Callable[..., Any] | None = None
        self._plain: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        weights = [args[place] for place in self._static]
        if weights and self._may_freeze(weights):
            if self._frozen is None:
                constants = dict(zip(self._static, weights))
                self._frozen = compile_graph(self._graph, constants, self._threads, self._exact_rounding)
            return self._frozen(*args)
        if self._plain is None:
            self._plain = compile_graph(self._graph, {}, self._threads, self._exact_rounding)
        return self._plain(*args)

    @property
    def frozen(self) -> bool:
        """True where the last call ran on weights as constants."""
        return self._frozen is not None

    def _may_freeze(self, weights: list[Any]) -> bool:
        """True where the weights are what they were, for long enough if they have ever changed."""
        if self._seen is not None and self._seen.holds(weights):
            self._wait = max(self._wait - 1, 0)
            return not self._wait
        try:
            seen = Snapshot(weights)
        except RuntimeError:  # no counter of writes
            self._static = ()
            return False
        self._wait = self._patience
        self._patience = max(2 * self._patience, _PATIENCE)
        self._seen, self._frozen = seen, None
        return not self._wait


def compile_graph(
    graph: Any, constants: Mapping[int, Any], threads: int | None, exact_rounding: bool = False
) -> Callable[..., Any]:
    """A function of the inputs of `graph`, a `torch.fx.GraphModule` of ATen operators, that returns its outputs.

    It does not read the inputs whose places `constants` has: their values are those that it gives.
    """
    try:
        converted = convert_graph(graph.graph, constants)
        made = converted.module
        model = compile_model(made, threads=threads, exact_rounding=exact_rounding) if made is not None else None
    except UserError as error:
        warnings.warn(f"a graph runs in PyTorch, not in Tilewright: {error}", FallbackWarning, stacklevel=2)
        run: Callable[..., Any] = graph.forward
        return run

    views = _Views(graph, converted)

    def call(*args: Any) -> Any:
        if any(isinstance(args[place], int) and args[place] < 0 for place in converted.inputs):
            return graph.forward(*args)  # an integer that is no size
        keys = [_random_key()] if converted.draws else []
        results = _run(model, [*(args[place] for place in converted.inputs), *keys])
        outputs = [_output(place, results, args) for place in converted.outputs]
        if views.places:
            try:
                views.fill(outputs, args)
            except RuntimeError:
                return graph.forward(*args)
        return outputs

    return call


class _Views:
    """The outputs of `graph` that are views, found once: `places` of them in what the graph gives out."""

    def __init__(self, graph: Any, converted: ConvertedGraph) -> None:
        self.places = [place for place, (kind, _) in enumerate(converted.outputs) if kind == "view"]
        (self._outputs,) = next(node for node in graph.graph.nodes if node.op == "output").args
        self._inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._made = [place for place, node in enumerate(self._outputs) if hasattr(node, "op")]

    def fill(self, outputs: list[Any], args: Sequence[Any]) -> None:
        """Put the views among the `outputs`, of these and of the inputs. Raises RuntimeError where a result has not the
        order of memory that one needs."""
        known = {self._outputs[place]: outputs[place] for place in self._made if place not in self.places}
        known |= dict(zip(self._inputs, args))
        for place in self.places:
            outputs[place] = replay(self._outputs[place], known)


def _run(model: Model | None, tensors: Sequence[Any]) -> list[Any]:
    """The results on tensors, as tensors."""
    if model is None:
        return []
    return [
        _tensor(one) for one in model.run({spec.name: _array(tensor) for spec, tensor in zip(model.inputs, tensors)})
    ]


def _tensor(array: Any) -> Any:
    """A tensor on the memory of an array."""
    # torch is optional
    import torch

    if array.dtype.kind in "fiub":
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"uint{8 * array.itemsize}")).view(getattr(torch, array.dtype.name))


def _random_key() -> Any:
    """A key that follows from the state of PyTorch's generator, and so from its seed."""
    # torch is optional
    import torch

    key = torch.zeros(10, dtype=torch.int64)
    torch.randint(-(2**63), 2**63 - 1, (2,), out=key[:2])
    return key.view(torch.uint64)


def _array(tensor: Any) -> Any:
    """The memory of a tensor, or of a copy where its elements do not lie in order; an integer as an axis of one."""
    if isinstance(tensor, int):
        return np.empty((tensor, 0), "uint8")
    plain = tensor.detach()
    if plain.is_complex():
        # torch is optional
        import torch

        plain = torch.view_as_real(plain.resolve_conj())
    plain = plain.contiguous()
    try:
        return plain.numpy()
    except (TypeError, RuntimeError):  # types that NumPy does not know, other devices
        return import_array(plain)


def _output(place: tuple[str, Any], results: Sequence[Any], args: Sequence[Any]) -> Any:
    """One output: a result, an input as it came, or a number; of a view its node, until it is made."""
    kind, value = place
    if kind == "complex":
        # torch is optional
        import torch

        return torch.view_as_complex(results[value])
    if kind == "size":
        return value(args)
    return results[value] if kind == "result" else args[value] if kind == "input" else value
