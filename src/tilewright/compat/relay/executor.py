"""`relay.build`, the graph executor and what the virtual machine runs, over `tilewright.compile`."""

from __future__ import annotations

import copy
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.compat.ir.layout_rules import altered
from tilewright.compat.ir.module import IRModule, as_module
from tilewright.compat.ir.pass_config import refuse_added
from tilewright.compat.relay.expr import bind_params_by_name
from tilewright.compat.runtime.array import NDArray, array, require_cpu, to_numpy
from tilewright.compat.runtime.benchmark import BenchmarkResult, Runs, Timed, measure
from tilewright.compat.runtime.compiled_module import CompiledModule, Exported
from tilewright.compat.runtime.functions import get_global_func
from tilewright.compat.runtime.graph_json import Graph, GraphProgram, graph_of
from tilewright.compat.runtime.linked import is_model, is_object, is_shared, own_parts
from tilewright.compat.runtime.model_library import is_graph, is_library, kernels_of, saved, write_model, write_own
from tilewright.compat.runtime.model_source import model_source
from tilewright.compat.runtime.packed_module import PackedModule
from tilewright.compat.runtime.params import load_param_dict
from tilewright.compat.runtime.values import ShapeTuple, to_classic
from tilewright.compat.target.target import Target as CurrentTarget
from tilewright.compat.vta.program import VtaModule
from tilewright.compile import compile as compile_model
from tilewright.driver.optimize import optimize as optimize_module
from tilewright.errors import ArtifactError, InputError, TargetError, UnsupportedError
from tilewright.load import load
from tilewright.relay.transform.simplify.legalize import legalize
from tilewright.runtime.model import Model
from tilewright.target import CpuTarget, Target
from tilewright.vta.te import ScheduledProgram


def build(
    ir_mod: Any,
    target: Any = None,
    target_host: Any = None,
    executor: Any = None,
    runtime: Any = None,
    workspace_memory_pools: Any = None,
    constant_memory_pools: Any = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
) -> ExecutorFactory:
    """Compile a module or function for `target`; `params` become constants of the compiled model.

    For a processor that this machine cannot stand for, the result has source and assembly, and running it is refused.
    `target` may be a mapping or list of a device and its host, whose operators are placed by marks and else by cost.

    `executor`, `runtime` and the memory pools of the classic signature make no difference here.
    """
    refuse_added("relay.build")
    if isinstance(executor, Mapping):  # v0.8 and before have the parameters instead
        params, executor = executor, None
    mod = with_params(IRModule.of(altered(legalize(as_module(ir_mod)))), params)
    chosen = single_target(target)
    has_host = isinstance(target, Mapping | list | tuple) and len(target) > 1
    model = compile_model(mod, chosen) if chosen.is_host or has_host else None
    return ExecutorFactory(model, mod, params, mod_name, chosen)


def optimize(
    mod: Any, target: Any = None, params: Mapping[str, Any] | None = None
) -> tuple[IRModule, Mapping[str, Any]]:
    """The module after the graph passes, and the parameters, which are constants in it now."""
    return IRModule.of(optimize_module(with_params(as_module(mod), params), single_target(target))), params or {}


def single_target(target: Any) -> Target:
    """The target of a classic argument: a string, a `Target`, or a mapping or list of one; the CPU if None.

    Of a device and its host it is the device. Raises `UnsupportedError` for other targets together.
    """
    if isinstance(target, Mapping):
        target = list(target.values())
    if isinstance(target, list | tuple):
        made = [CurrentTarget(one) for one in target]
        target, *more = [one for one in made if not isinstance(one, CpuTarget)] or made
        if more:
            kinds = ", ".join(one.kind for one in made)
            raise UnsupportedError(f"a model is compiled for one target, or a device and its host, not for {kinds}")
    return CurrentTarget(CurrentTarget.current() or "llvm" if target is None else target)


def with_params(mod: IRModule, params: Mapping[str, Any] | None) -> IRModule:
    """The module whose `main` has the values of parameters in place of these."""
    if not params:
        return mod
    changed = IRModule.of(mod.with_functions(mod.functions))
    changed["main"] = bind_params_by_name(mod["main"], params)
    return changed


#: The name by which a model on a device is looked up: `lib["default"](tvm.cpu())["run"]()`.
EXECUTOR_FUNCTIONS = (
    *("get_input", "get_input_index", "get_num_inputs", "get_num_outputs", "get_output", "load_params", "run"),
    "set_input",
)


class ExecutorFactory(Timed, Exported):
    """A compiled model before it is put on a device: `factory["default"](tvm.cpu())` puts it there.

    It unpacks into (graph JSON, library, parameters), the oldest way to pass a compiled model on.
    """

    def __init__(
        self,
        model: Model | None,
        mod: Any,
        params: Mapping[str, Any] | None,
        name: str = "default",
        target: Target | None = None,
    ) -> None:
        self._executable = model
        self.ir_mod = mod
        self.target = target
        self._given = {key: array(to_numpy(value)) for key, value in (params or {}).items()}
        self._graph: tuple[str, dict[str, NDArray]] | None = None
        self.libmod_name = name
        self._entries: dict[str, Callable[..., Any]] = {}
        self._running: GraphModule | None = None

    @property
    def executable(self) -> Model:
        """The compiled model. Raises `TargetError` where this machine cannot run it."""
        if self._executable is None:
            raise TargetError(f"this machine ({Target.host()}) cannot run code for {self.target}; look at get_source()")
        return self._executable

    def get_source(self, fmt: str = "") -> str:
        """The text of the kernels: LLVM IR ("ll", also ""), or assembly ("asm")."""
        if self.ir_mod is None or self.target is None:
            raise UnsupportedError("get_source: a model that was read from a file has no text; build it again")
        return model_source(self.ir_mod, self.target, fmt)

    def __getitem__(self, name: str) -> Callable[..., ExecutorFactory]:
        if self._running is not None and name in EXECUTOR_FUNCTIONS:
            return getattr(self._running, name)
        if name not in ("default", self.libmod_name, "debug_create"):
            raise InputError(f"the compiled model has no function {name!r}; it has {self.libmod_name!r}")

        def put_on(*devices: Any) -> ExecutorFactory:
            self.require(devices)
            made = copy.copy(self)
            made._running = GraphModule(self)
            return made

        return put_on

    def require(self, device: Any) -> None:
        """Raise `InputError` for a device, or one among several, other than the host and the model's own."""
        for one in device if isinstance(device, list | tuple) else [device]:
            if getattr(one, "kind", None) != getattr(self.target, "kind", ""):
                require_cpu(None if isinstance(one, str) else one)

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """The function called `name`, as `factory[name]` returns it; `query_imports` changes nothing."""
        return self[name]

    def with_entries(
        self, given: Callable[[], Mapping[str, NDArray]] | None = None, **entries: Callable[..., Any]
    ) -> ExecutorFactory:
        """This model with functions of an executor that runs it, by name, on the values that it has been `given`."""
        made = copy.copy(self)
        made._entries = entries
        return made

    def _timed(self, func_name: str, dev: Any, f_preproc: str, runs: Runs) -> Callable[..., BenchmarkResult]:
        """Of a function of the executor. Raises `UnsupportedError` for those that no executor has put there."""
        self.require(dev)
        function = self._entry(func_name)
        before = get_global_func(f_preproc) if f_preproc else lambda: None

        def call(*args: Any) -> None:
            before()
            function(*args)

        return lambda *args: measure(lambda: call(*args), *runs)

    def _entry(self, func_name: str) -> Callable[..., Any]:
        if func_name not in self._entries:
            known = ", ".join(map(repr, self._entries)) or "none before it is put on a device"
            raise UnsupportedError(f"{func_name!r} of a compiled model is not timed; the functions that are: {known}")
        return self._entries[func_name]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.graph_json, self, self.params))

    def get_lib(self) -> ExecutorFactory:
        """The object that holds the code: this one."""
        return self

    lib = module = mod = property(get_lib)

    def with_graph(self, text: str) -> ExecutorFactory:
        """This model, read from a file, with the parameters that its graph names."""
        if self.ir_mod is not None or '"node_row_ptr"' not in text:  # or the record of a program with control flow
            return self
        made = copy.copy(self)
        names = [node.name for node in Graph.read(text).nodes if node.function is None]
        inputs = {spec.name for spec in self.executable.inputs}
        constants = [name for name in names if name not in inputs]
        made._graph = text, dict(zip(constants, self._constants(), strict=False))
        return made

    def _constants(self) -> Iterator[NDArray]:
        """The weights of the model in their order, as bytes."""
        model = self.executable
        data = np.frombuffer(model._weights, np.uint8)  # the runtime has no reader of single ones
        for weight in model.manifest.weights:
            yield array(data[weight.offset : weight.offset + weight.bytes])

    def check_parameter(self, name: str, value: Any) -> bool:
        """True for a parameter, by its name for `build` or in the graph. Raises `InputError` for another value."""
        known = self._given.get(name)
        if known is None and self._graph is not None:
            known = self._graph[1].get(name)
        if known is not None and known.numpy().tobytes() != value.tobytes() and not np.array_equal(known, value):
            raise InputError(
                f"{name!r} is a constant of the compiled model, of another value: build it again with this"
            )
        return known is not None

    def get_graph_json(self) -> str:
        """The graph of the model's kernels, as the classic executor's JSON text.

        Of a program of the virtual machine, or a model read from a file, what the compiler recorded of it.
        """
        if self._executable is None:  # it unpacks into its graph, too, where it cannot run
            return "{}"
        if self.ir_mod is None or not hasattr(self._executable.manifest, "kernels"):
            return json.dumps(self._executable.manifest.to_json())
        if self._graph is None:
            self._graph = graph_of(optimize_module(self.ir_mod, self.target or Target.host()))
        return self._graph[0]

    def get_params(self) -> dict[str, NDArray]:
        """The parameters: by the names of the graph, where there is one; else as they were given to `build`.

        They are constants of the code already.
        """
        self.get_graph_json()
        return self._given if self._graph is None else self._graph[1]

    graph_json, params = property(get_graph_json), property(get_params)

    def _export(self, path: str | os.PathLike[str]) -> None:
        """A library has the graph of the model's kernels, these, and the weights; programs with control flow or sizes
        of a run, or of a device, are there in our own form alone."""
        target = self.target or Target.host()
        if not is_library(path) or not target.is_host:
            self.executable.save(path)
            return
        own = saved(self.executable)
        optimized = self.optimized_graph()
        funcs = kernels_of(optimized, target) if optimized is not None else []
        if optimized is not None and funcs:
            graph, constants = self._graph or graph_of(optimized)
            write_model(path, own, graph, constants, self.libmod_name, funcs, target)
        else:
            write_own(path, own, target)

    def optimized_graph(self) -> Any:
        """The module whose kernels a classic executor can run in a row; None where there is none, as of a file read."""
        if self.ir_mod is None or not hasattr(self.executable, "manifest"):
            return None
        optimized = optimize_module(self.ir_mod, self.target or Target.host())
        return optimized if is_graph(optimized) else None


def load_module(path: str | os.PathLike[str], fmt: str = "") -> ExecutorFactory | CompiledModule:
    """The model, or the functions, that `export_library` wrote to `path`; of a linked library, those in its objects.

    A program for VTA is one too. A shared library of another compiler has its functions by the classic packed
    interface. Raises `ArtifactError` for anything else.
    """
    if ScheduledProgram.is_saved(path):
        return VtaModule(ScheduledProgram.load(path))
    if not is_object(path):
        try:
            return CompiledModule.load(path)
        except ArtifactError:  # a model, or neither of both, which reading it as one says
            return ExecutorFactory(load(path), None, None)
    parts = own_parts(path)
    if len(parts) == 1 and is_model(parts[0]):
        with tempfile.TemporaryDirectory() as folder:
            single = Path(folder) / "model"
            single.write_bytes(parts[0])
            return ExecutorFactory(load(single), None, None)
    return load_packed(path) if not parts and is_shared(path) else CompiledModule.load(path)


def load_packed(path: str | os.PathLike[str]) -> ExecutorFactory | CompiledModule:
    """The functions, or the graph over them, in a shared library with the classic packed interface."""
    module = PackedModule(path)
    graph = module.library.graph()
    if graph is None:
        return module
    program: Any = GraphProgram(graph.graph, module)
    return ExecutorFactory(program, None, graph.params, graph.name)


def _sizes(shape: Sequence[Any]) -> Any:
    """A shape as classic programs get it: sizes that are known as a `ShapeTuple`, others by their names."""
    return ShapeTuple(shape) if all(isinstance(size, int) for size in shape) else tuple(shape)


class GraphModule(Timed):
    """A compiled model with the inputs it was given and the outputs it made."""

    def __init__(self, module: ExecutorFactory) -> None:
        if not isinstance(module, ExecutorFactory):
            raise InputError(f'a GraphModule is made of factory["default"](device), not of a {type(module).__name__}')
        self._inputs: dict[str, NDArray] = {}
        self.module = module.with_entries(lambda: self._inputs, run=self.run)
        self.executable = module.executable
        self._outputs: Sequence[NDArray] = []
        if isinstance(self.executable, GraphProgram):  # whose parameters are inputs
            self._inputs.update(module._given)

    def set_input(self, key: Any = None, value: Any = None, **params: Any) -> None:
        """Set the input called `key`, or number `key`, and those named by keywords; parameters may be among these."""
        given = dict(params)
        if key is not None:
            given[key if isinstance(key, str) else self.executable.inputs[key].name] = value
        names = [spec.name for spec in self.executable.inputs]
        for name, one in given.items():
            if name in names:
                self._inputs[name] = array(self._fitting(name, to_numpy(one)))
            elif not self.module.check_parameter(name, to_numpy(one)):
                raise InputError(f"the model has no input {name!r}; it has: {', '.join(names)}")

    def _fitting(self, name: str, value: Any) -> Any:
        """`value` in the input's dtype, as the classic executor copies it into its own buffer."""
        spec = next(one for one in self.executable.inputs if one.name == name)
        return np.asarray(value, dtype=spec.dtype.numpy) if value.dtype != spec.dtype.numpy else value

    def run(self, **inputs: Any) -> None:
        """Run the model on the inputs set, those given here included. Raises `InputError` if one was never set."""
        self.set_input(**inputs)
        missing = [spec.name for spec in self.executable.inputs if spec.name not in self._inputs]
        if missing:
            raise InputError(f"no value was set for the input{'s'[: len(missing) - 1]} {', '.join(missing)}")
        self._outputs = to_classic(self.executable.run({k: v.numpy() for k, v in self._inputs.items()}))

    def get_input_index(self, name: str) -> int:
        """The number of the input called `name`; -1 if there is none."""
        names = [spec.name for spec in self.executable.inputs]
        return names.index(name) if name in names else -1

    def get_input_info(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The shapes of all inputs, and their dtypes, by name."""
        inputs = self.executable.inputs
        return {spec.name: _sizes(spec.shape) for spec in inputs}, {spec.name: str(spec.dtype) for spec in inputs}

    def get_num_outputs(self) -> int:
        """The number of outputs of the model."""
        return len(self.executable.outputs)

    def get_num_inputs(self) -> int:
        """The number of inputs of the model."""
        return len(self.executable.inputs)

    def get_input(self, index: int | str, out: NDArray | None = None) -> NDArray:
        """The value set for an input, by number or name."""
        name = index if isinstance(index, str) else self.executable.inputs[index].name
        if name not in self._inputs:
            raise InputError(f"no value was set for the input {name!r}")
        return self._inputs[name] if out is None else self._inputs[name].copyto(out)

    def get_output(self, index: int, out: NDArray | None = None) -> NDArray:
        """Output number `index` of the last run."""
        if not self._outputs:
            raise InputError("the model was not run yet: call run() before get_output()")
        return self._outputs[index] if out is None else self._outputs[index].copyto(out)

    def load_params(self, params_bytes: bytes | bytearray) -> None:
        """Set the inputs that saved parameters name."""
        self.set_input(**load_param_dict(params_bytes))

    def benchmark(
        self,
        device: Any = None,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        end_to_end: bool = False,
        **inputs: Any,
    ) -> BenchmarkResult:
        """Seconds of a run on the inputs given: `repeat` times the mean of `number` runs, or of as many as take
        `min_repeat_ms`; with `end_to_end` copying the inputs into the model and the outputs out of it counts."""
        self.set_input(**inputs)
        if not end_to_end:
            return self.module.time_evaluator(func_name, device, number, repeat, min_repeat_ms)()

        def copy_and_run() -> None:
            self.run(**inputs)
            for index in range(self.get_num_outputs()):
                self.get_output(index).asnumpy().copy()

        timed = self.module.with_entries(run=copy_and_run)
        return timed.time_evaluator(func_name, device, number, repeat, min_repeat_ms)()

    def _timed(self, func_name: str, dev: Any, f_preproc: str, runs: Runs) -> Callable[..., BenchmarkResult]:
        return self.module.time_evaluator(func_name, dev, *runs, f_preproc)


def create(graph_json_str: Any, libmod: Any, device: Any = None) -> GraphModule:
    """The graph executor of a compiled model, from what `relay.build` unpacks into; or of a graph over functions.

    Where `libmod` is a module of functions, as `tvm.build` returns it, the graph says which of them is called on what.
    """
    if isinstance(libmod, ExecutorFactory):
        libmod.require(device)
        return GraphModule(libmod.with_graph(graph_json_str))
    program: Any = GraphProgram(graph_json_str, libmod, device)
    return GraphModule(ExecutorFactory(program, None, None))
