"""`torch.compile(backend="tilewright")`: graphs of TorchDynamo compiled by this package, in training by AOTAutograd.

PyTorch finds the function `tilewright` through the entry-point group ``torch_dynamo_backends``. AOTAutograd passes it a
forward graph, and in training a backward one, of functional ATen operators; parameters are inputs of both. In inference
they become constants, which are packed and folded, and are watched: a graph whose weights change takes them as inputs
again. What goes wrong with a graph, when it is compiled or when it runs, leaves it to PyTorch, with a warning that says
what and why. Tensors are read and handed back where they lie; one whose elements do not lie in order is copied first.
A graph on an NVIDIA GPU is compiled for it and runs on PyTorch's current stream, its parameters read in place.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.compile import compile as compile_model
from tilewright.errors import EnvironmentError_, UnsupportedError
from tilewright.frontend.torch.coverage import GraphRecord, TorchReport, announce, entered, ran, torch_report
from tilewright.frontend.torch.devices import FixedTensors, gpu_target
from tilewright.frontend.torch.graph import ConvertedGraph, convert_graph, without_converter
from tilewright.frontend.torch.tensors import array_of_memory, random_key
from tilewright.frontend.torch.weights import Snapshot, backward_positions, static_positions
from tilewright.runtime.gpu.cuda_dlpack import current_stream

__all__ = ["CompiledGraph", "FallbackWarning", "TorchReport", "tilewright", "torch_report"]

#: Calls for which weights that changed must stay the same before they become constants again; doubled each time.
_PATIENCE = 64

#: Calls of a graph in a row that may fail before PyTorch makes all of them.
_MOST_FAILURES = 3

#: Warnings given so far of what this machine lacks, which every graph for a GPU would repeat.
_WARNED: set[str] = set()

#: What `torch.compile(..., options=)` may set.
_OPTIONS = {"freezing": True, "threads": None, "strict": False, "checks": True, "exact_rounding": False}


class FallbackWarning(UserWarning):
    """A graph, or a call of one, is left to PyTorch."""


def tilewright(
    graph: Any,
    example_inputs: Sequence[Any],
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    **ignored: Any,
) -> Callable[..., Any]:
    """The backend: what runs in place of `graph`, a `torch.fx.GraphModule`.

    `options`: "freezing", whether weights become constants in inference (default True); "threads" and
    "exact_rounding", as of `tilewright.compile`; "strict", whether a graph that cannot be compiled is an error instead
    of PyTorch's; "checks", whether indices out of range raise as in eager mode (default True). `mode` is ignored, with
    a warning. Raises `UnsupportedError` for another option, `EnvironmentError_` when the `torch` package
    is not installed.
    """
    try:
        from torch._dynamo.exc import TensorifyScalarRestartAnalysis
    except ImportError:
        raise EnvironmentError_("torch.compile needs the torch package, which is not installed") from None
    unknown = sorted(set(options or ()) - set(_OPTIONS))
    if unknown:
        raise UnsupportedError(f"the backend has no option {unknown[0]!r}; its options are: {', '.join(_OPTIONS)}")
    chosen = {**_OPTIONS, **(options or {})}
    if mode is not None:
        message = f"torch.compile(mode={mode!r}) is ignored: the back end Tilewright has no modes, only options"
        warnings.warn(message, UserWarning, stacklevel=2)
    try:
        return _by_aot(graph, example_inputs, chosen, without_converter())
    except TensorifyScalarRestartAnalysis:  # asks Dynamo to trace the function again
        raise
    except Exception as error:  # a decomposition that AOTAutograd refuses: without any, it is what PyTorch itself runs
        compiled = _by_aot(graph, example_inputs, chosen, {})
        reason = f"PyTorch cannot trace it with its own decompositions: {_described(error)}"
        if chosen["strict"]:
            return _refused(f"a graph cannot be compiled, and strict=True: {reason}")
        warnings.warn(f"a graph is traced without decompositions: {reason}", FallbackWarning, stacklevel=2)
        return compiled


announce(tilewright)


def _by_aot(
    graph: Any, example_inputs: Sequence[Any], chosen: Mapping[str, Any], table: dict[Any, Any]
) -> Callable[..., Any]:
    """The function that AOTAutograd makes of `graph` with a `table` of decompositions."""
    # torch is optional
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def compiler(kind: str) -> Callable[..., Any]:
        def make(part: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
            static = static_positions(part.graph) if kind == "inference" and chosen["freezing"] else ()
            fixed = backward_positions(part.graph) if kind == "backward" else static_positions(part.graph, tables=True)
            checks = bool(chosen["checks"]) and kind != "backward"  # where it reads was checked on the way forward
            strict, exact = bool(chosen["strict"]), bool(chosen["exact_rounding"])
            call = CompiledGraph(part, static, chosen["threads"], strict, kind, checks, exact, fixed)
            boxed: Callable[..., Any] = make_boxed_func(call)  # a function of one list, which it may clear
            return boxed

        return make

    compiled: Callable[..., Any] = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=table,
    )(graph, example_inputs)
    return compiled


def _refused(message: str) -> Callable[..., Any]:
    """A function that raises `UnsupportedError`: from within a call, PyTorch does not wrap it into another error."""

    def refuse(*_args: Any) -> Any:
        raise UnsupportedError(message)

    return refuse


class CompiledGraph:
    """A function of the inputs of `graph`, a `torch.fx.GraphModule` of ATen operators, that returns its outputs.

    The inputs at the positions `static` are constants as long as they do not change. Compiled at the first call, which
    is when their values are known. Those at the positions `fixed` stay at their addresses, which matters on a GPU. What
    cannot be compiled or run is left to PyTorch, or raises `UnsupportedError` where the graph is `strict`; what PyTorch
    raises itself is raised as it is.
    """

    def __init__(
        self,
        graph: Any,
        static: Sequence[int],
        threads: int | None,
        strict: bool = False,
        kind: str = "inference",
        checks: bool = True,
        exact_rounding: bool = False,
        fixed: Sequence[int] = (),
    ) -> None:
        self._graph, self._threads, self._strict, self._fixed = graph, threads, strict, tuple(fixed)
        self._checks, self._exact_rounding = checks, exact_rounding
        self._static = tuple(static)
        self._patience = self._wait = 0  # calls for which changed weights must stay the same, and how many are left
        self._seen: Snapshot | None = None  # of the weights in the last call, where they are or may become constants
        self._frozen: Callable[..., Any] | None = None
        self._plain: Callable[..., Any] | None = None
        self._lock = threading.RLock()  # of what is above, which several threads may want to change
        self._record: GraphRecord = entered(kind, graph)
        self._failures = 0

    def __call__(self, *args: Any) -> Any:
        ran()
        if self._record.state == "left":
            return self._graph.forward(*args)
        try:
            found = self._chosen(args)(args)
        except Exception as error:  # whatever it is, PyTorch may be able to run the graph
            return self._left(args, error)
        self._failures = 0
        return found

    @property
    def frozen(self) -> bool:
        """True where the last call ran on weights as constants."""
        return self._frozen is not None

    def _chosen(self, args: Sequence[Any]) -> Callable[..., Any]:
        """The function that runs the graph on `args`, compiled where it is not yet."""
        if not self._static and self._plain is not None:
            return self._plain
        with self._lock:
            weights = [args[position] for position in self._static]
            if weights and self._may_freeze(weights):
                if self._frozen is None:
                    self._frozen = self._compiled(dict(zip(self._static, weights)))
                return self._frozen
            if self._plain is None:
                self._plain = self._compiled({})
            return self._plain

    def _compiled(self, constants: Mapping[int, Any]) -> Callable[..., Any]:
        try:
            run = compile_graph(self._graph, constants, self._threads, self._checks, self._exact_rounding, self._fixed)
        except Exception:
            self._failures = _MOST_FAILURES  # it would fail again
            raise
        if self._record.state == "waiting":
            self._record.became("compiled")
        return run

    def _left(self, args: Sequence[Any], error: Exception) -> Any:
        """The outputs by PyTorch, for this call and, after some failures, for all to come."""
        for_good = self._failures >= _MOST_FAILURES
        if self._strict and for_good:
            raise UnsupportedError(f"a graph cannot be compiled, and strict=True: {_described(error)}") from error
        found = self._graph.forward(*args)  # what it raises as well is the program's own error
        if self._strict:
            raise UnsupportedError(
                f"a call of a compiled graph failed, and strict=True: {_described(error)}"
            ) from error
        self._failures += 1
        for_good = for_good or self._failures >= _MOST_FAILURES
        if not self._record.reason and not _warned_before(error):
            what = "a graph runs" if for_good else "a call of a graph runs"
            message = f"{what} in PyTorch, not in Tilewright: {_described(error)}"
            warnings.warn(message, FallbackWarning, stacklevel=3)
        self._record.left_calls += 1
        self._record.reason = _described(error)
        if for_good:
            self._record.became("left", _described(error))
            self._frozen = self._plain = self._seen = None
        return found

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
    graph: Any,
    constants: Mapping[int, Any],
    threads: int | None,
    checks: bool = False,
    exact_rounding: bool = False,
    fixed: Sequence[int] = (),
) -> Callable[[Sequence[Any]], Any]:
    """A function of the inputs of `graph`, a `torch.fx.GraphModule` of ATen operators, as a list: its outputs.

    It does not read the inputs whose positions `constants` has: their values are those that it states. With
    `checks`, PyTorch runs the graph, and raises, where it refuses what it is given. On a GPU the inputs at the
    positions `fixed` are read where they are. Raises `UnsupportedError` for what cannot be converted,
    `EnvironmentError_` for a GPU whose driver, or whose compiler, is missing.
    """
    converted = convert_graph(graph.graph, constants, checks)
    outputs = converted.outputs
    if converted.module is None:
        return lambda args: outputs.tensors((), args)
    target = "cpu" if converted.gpu is None else gpu_target(converted.gpu)
    model = compile_model(converted.module, target=target, threads=threads, exact_rounding=exact_rounding)
    many, arrays_of = len(model.outputs) > 1, _reader(converted, fixed)

    def call(args: Sequence[Any]) -> Any:
        if any(args[position] < 0 for position in converted.integers):  # an integer that is no size
            return graph.forward(*args)
        given = arrays_of(args)
        if converted.draws:
            given.append(array_of_memory(random_key(converted.gpu)))
        results = model(*given)
        arrays: Any = results if many else (results,)
        if converted.checked:
            *arrays, refused = arrays
            if refused:
                return graph.forward(*args)  # which raises what eager mode raises
        return outputs.tensors(arrays, args)

    return call


def _reader(converted: ConvertedGraph, fixed: Sequence[int]) -> Callable[[Sequence[Any]], list[Any]]:
    """A function of a graph's inputs that returns what its module takes of them, but for a key of random numbers."""
    positions, orders = converted.inputs, converted.orders
    if converted.gpu is None:
        return lambda args: [array_of_memory(args[position], orders.get(position)) for position in positions]
    number, kept = converted.gpu, FixedTensors(converted.gpu, fixed)

    def read(args: Sequence[Any]) -> list[Any]:
        stream = current_stream(next(iter(args), None), number) or 0
        tensors = [(position, array_of_memory(args[position], orders.get(position))) for position in positions]
        return [kept.array(position, tensor, stream) for position, tensor in tensors]

    return read


def _warned_before(error: Exception) -> bool:
    """True for something that this machine lacks and that a warning has named."""
    if not isinstance(error, EnvironmentError_):
        return False
    before = str(error) in _WARNED
    _WARNED.add(str(error))
    return before


def _described(error: Exception) -> str:
    """An error in one text, as the reason for something."""
    text = str(error).strip() or type(error).__name__
    return text if isinstance(error, UnsupportedError) else f"{type(error).__name__}: {text}"
