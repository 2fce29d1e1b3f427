"""`tvm.contrib.debugger.debug_executor`: the graph executor that tells what each node took, and what it gave.

    module = debug_executor.create(graph, lib, tvm.cpu(0), dump_root="/tmp/debug")
    module.run(x=image)

The folder has the graph, a trace of the run for chrome://tracing, and after it every tensor as a file of parameters:
of a graph over functions those of all nodes, of a compiled model, whose kernels leave no more behind, its outputs.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.compat.relay.executor import ExecutorFactory, GraphModule
from tilewright.compat.relay.executor import create as create_plain
from tilewright.compat.runtime.array import NDArray
from tilewright.compat.runtime.graph_json import GraphNode, GraphProgram
from tilewright.compat.runtime.params import save_param_dict
from tilewright.errors import InputError, UnsupportedError

_GRAPH, _TRACE, _TENSORS = "_tvmdbg_graph_dump.json", "_tvmdbg_execution_trace.json", "output_tensors.params"


class FrontendTestModule:
    """Functions by name, as a module has them."""

    entry_name = "__tvm_main__"

    def __init__(self, entry_name: str | None = None) -> None:
        self.entry_name = entry_name or self.entry_name
        self._functions: dict[str, Callable[..., Any]] = {}

    def add_function(self, name: str, func: Callable[..., Any]) -> None:
        """Let the module have `func` by this name."""
        self._functions[name] = func

    __setitem__ = add_function

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name not in self._functions:
            raise InputError(f"the module has no function {name!r}; it has: {', '.join(self._functions) or 'none'}")
        return self._functions[name]


@dataclass(frozen=True)
class Step:
    """One node of a run: its name and function, when it began and how long it took, in seconds, and its shape."""

    name: str
    function: str
    begun: float
    seconds: float
    shape: Sequence[int]
    inputs: int
    outputs: int


class DebugDatum:
    """The results of the last run."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def get_debug_result(self, sort_by_time: bool = True) -> str:
        """A table of the nodes that compute, the slowest first."""
        ran = [step for step in self.steps if step.function != "param"]
        total = sum(step.seconds for step in ran)
        rows: list[tuple[str, ...]] = [("Node Name", "Ops", "Time(us)", "Time(%)", "Shape", "Inputs", "Outputs")]
        rows.append(tuple("-" * len(title) for title in rows[0]))
        for step in sorted(ran, key=lambda step: -step.seconds) if sort_by_time else ran:
            share = 100 * step.seconds / total if total else 0.0
            counts = (str(tuple(step.shape)).replace(" ", ""), str(step.inputs), str(step.outputs))
            rows.append((step.name, step.function, f"{step.seconds * 1e6:.3f}", f"{share:.3f}", *counts))
        rows.append(("Total_time", "-", f"{total * 1e6:.3f}", "-", "-", "-", "-"))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("".join(f"{word:<{width}}  " for word, width in zip(row, widths, strict=True)) for row in rows)

    def trace(self) -> dict[str, Any]:
        """The run as events of Chrome's trace viewer: each node's begin and end."""
        first = self.steps[0].begun if self.steps else 0.0
        events = []
        for step in self.steps:
            for phase, at in (("B", step.begun), ("E", step.begun + step.seconds)):
                events.append(
                    {"ph": phase, "ts": (at - first) * 1e6, "pid": 1, "tid": 1, "name": step.name, "args": {}}
                )
        return {"displayTimeUnit": "ns", "traceEvents": events}


def create(graph_json_str: str, libmod: Any, device: Any, dump_root: str | None = None) -> GraphModuleDebug:
    """The executor of a graph that tells what its nodes do, in a folder below `dump_root` (default: a fresh one)."""
    return GraphModuleDebug(create_plain(graph_json_str, libmod, device), device, graph_json_str, dump_root)


class GraphModuleDebug(GraphModule):
    """A `GraphModule` that keeps the time and the results of each node of the last run."""

    def __init__(self, module: Any, device: Any, graph_json_str: str, dump_root: str | None) -> None:
        super().__init__(module if isinstance(module, ExecutorFactory) else module.module)
        self.debug_datum = DebugDatum()
        self._tensors: dict[str, NDArray] = {}
        self._root = Path(dump_root or tempfile.mkdtemp(prefix="tvmdbg_"))
        self._keeps = dump_root is not None
        device = device[0] if isinstance(device, list | tuple) else device
        self._folder = self._root / f"_tvmdbg_device_{getattr(device, 'kind', 'cpu').upper()}_{device.device_id}"
        self._dump_path = str(self._folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / _GRAPH).write_text(graph_json_str)

    def run(self, **input_dict: Any) -> None:
        """Run on the inputs set, and write the trace and the tensors into the folder."""
        self.set_input(**input_dict)
        self.debug_datum.steps, self._tensors = [], {}
        program = self.executable
        if isinstance(program, GraphProgram):
            self._run_nodes(program)
        else:
            self._run_kernels()
        (self._folder / _TRACE).write_text(json.dumps(self.debug_datum.trace()))
        (self._folder / _TENSORS).write_bytes(save_param_dict(self._tensors))

    def _run_nodes(self, program: GraphProgram) -> None:
        for node in program.graph.nodes:
            if node.function is None:
                shape = program.graph.shapes[node.outputs[0]]
                self.debug_datum.steps.append(Step(node.name, "param", time.perf_counter(), 0.0, shape, 0, 1))

        def watch(node: GraphNode, made: Sequence[NDArray], call: Callable[[], None]) -> None:
            begun = time.perf_counter()
            call()
            seconds = time.perf_counter() - begun
            step = Step(node.name, str(node.function), begun, seconds, made[0].shape, len(node.inputs), len(made))
            self.debug_datum.steps.append(step)
            self._tensors |= {f"{node.name}____{index}": one for index, one in enumerate(made)}

        program.watch = watch
        try:
            super().run()
        finally:
            program.watch = None

    def _run_kernels(self) -> None:
        super().run()
        begun = time.perf_counter()
        for timed in self.executable.profile({name: value.numpy() for name, value in self._inputs.items()}):
            self.debug_datum.steps.append(Step(timed.source, timed.kernel, begun, timed.seconds, (), 0, 0))
            begun += timed.seconds
        self._tensors = {
            f"{spec.name}____0": self.get_output(index) for index, spec in enumerate(self.executable.outputs)
        }

    def debug_get_output(self, node: int | str, out: NDArray | None = None) -> NDArray:
        """The value of a node, by name or number, in the last run. Raises `UnsupportedError` in a compiled model."""
        program = self.executable
        if not isinstance(program, GraphProgram):
            raise UnsupportedError("debug_get_output: kernels keep no results; `tilewright bisect` compares nodes")
        name = node if isinstance(node, str) else program.graph.nodes[node].name
        if name in self._inputs:
            found = self._inputs[name]
        elif f"{name}____0" in self._tensors:
            found = self._tensors[f"{name}____0"]
        else:
            raise InputError(f"the last run has no node {name!r}; it has: {', '.join(self._tensors) or 'none'}")
        return found if out is None else found.copyto(out)

    def run_individual(self, number: int, repeat: int = 1, min_repeat_ms: float = 0) -> list[float]:
        """Seconds that each node took, the mean of `number` times `repeat` runs, or as many as take `min_repeat_ms`."""
        sums: list[float] = []
        begun, runs = time.perf_counter(), 0
        while runs < number * repeat or (time.perf_counter() - begun) * 1e3 < min_repeat_ms * repeat:
            self.run()
            seconds = [step.seconds for step in self.debug_datum.steps]
            sums = [old + new for old, new in zip(sums or [0.0] * len(seconds), seconds, strict=True)]
            runs += 1
        return [seconds / runs for seconds in sums]

    def profile(self, collectors: Any = None, **input_dict: Any) -> str:
        """A run on the inputs as a table. Raises `UnsupportedError` for collectors."""
        if collectors:
            raise UnsupportedError("profile(collectors=…): times are all that is collected")
        self.run(**input_dict)
        return self.debug_datum.get_debug_result()

    def exit(self) -> None:
        """Delete the folder, unless the program named it."""
        if not self._keeps:
            shutil.rmtree(self._root, ignore_errors=True)
