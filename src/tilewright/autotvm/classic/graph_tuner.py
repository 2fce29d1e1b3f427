"""Layouts of a network by the classic interface: what is measured of the ways to run each convolution, as a log.

    executor = DPTuner(mod["main"], {"data": (1, 3, 224, 224)}, "kernels.log", [relay.op.get("nn.conv2d")], "llvm")
    executor.run()
    executor.write_opt_sch2record_file("graph.log")
    with apply_graph_best("graph.log"): …                 # compile

The choice is this compiler's own (`network/layouts.py`), one solver for both classic names. The log has the fastest
known configuration of each kernel and, where other layouts were faster, one line of the task "layouts".
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.autotvm.classic.extract import bind_arrays
from tilewright.autotvm.classic.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tilewright.autotvm.classic.record import ApplyHistoryBest, RecordedTask, Records, encode
from tilewright.autotvm.network.options import TuneOptions, Watcher
from tilewright.autotvm.network.session import Session
from tilewright.autotvm.network.site import Here
from tilewright.autotvm.template.entities import OtherOptionEntity
from tilewright.autotvm.template.space import ConfigEntity
from tilewright.errors import InputError
from tilewright.records.database import processor_of
from tilewright.records.entry import Entry
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.transform.layout.recorded_layouts import TEMPLATE
from tilewright.support.dtype import DType
from tilewright.target import Target

#: Seconds of measuring, where nobody says.
_SECONDS = 30.0

#: An optimal record: the pair of input and result.
Pair = tuple[MeasureInput, MeasureResult]


class DPTuner:
    """Chooses the layouts of `graph`, a function or module; parameters other than `input_shapes` are its weights.

    `records` are a log's path or pairs, of its kernels. `target_ops` and the options after `target` make no difference:
    layouts are chosen for all operators that have any. Raises `InputError` where a weight has no type.
    """

    def __init__(
        self,
        graph: Any,
        input_shapes: Mapping[str, Sequence[int]],
        records: Records,
        target_ops: Sequence[Any],
        target: Any,
        max_sch_num: int = 20,
        dtype: str = "float32",
        verbose: bool = True,
        log_file: str = "graph_tuner.log",
        log_level: Any = None,
        name: str = "graph_tuner",
    ) -> None:
        self.target = Target(target)
        mod = IRModule.from_expr(graph) if isinstance(graph, Function) else graph
        self._mod = bind_arrays(mod, _weights(mod, input_shapes))
        self._known = ApplyHistoryBest(records).database
        self._layouts: Entry | None = None
        self._ran = False

    def benchmark_layout_transform(self, *_: Any, **__: Any) -> None:
        """Nothing: the cost model prices changes of layout."""

    def run(self, seconds: float = _SECONDS) -> None:
        """Measure the ways of each convolution for up to `seconds` seconds, and choose.

        Raises what compiling the graph would, and `UnsupportedError` where nothing of it has a choice.
        """
        session = Session(self._mod, self.target, TuneOptions(), Watcher(), Here(), self._known, self._known.add)
        self._layouts, self._ran = session.choose_layouts(seconds), True

    def get_optimal_records(self) -> list[Pair]:
        """The fastest known configuration of each kernel, and the layouts if others are faster. Raises `InputError`
        before `run`."""
        if not self._ran:
            raise InputError(f"{type(self).__name__}: call run() before its choices are read")
        own = processor_of(self.target)
        best = self._known.configurations(own).values()
        kernels = [entry for entry in best if entry.config is not None and entry.task.template != TEMPLATE]
        return [_pair(entry, own) for entry in (*kernels, *filter(None, [self._layouts]))]

    def write_opt_sch2record_file(self, record_file: str | os.PathLike[str] = "graph_opt_schedule.log") -> None:
        """Write these as a log."""
        lines = "".join(f"{encode(*pair)}\n" for pair in self.get_optimal_records())
        Path(record_file).write_text(lines, encoding="utf-8")


class PBQPTuner(DPTuner):
    """The same: there is one solver, exact for chains, branches and trees."""


def apply_graph_best(records: Records) -> ApplyHistoryBest:
    """The context of what a graph tuner wrote."""
    return ApplyHistoryBest(records)


def _weights(mod: IRModule, input_shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Values for the parameters that are no inputs: layouts depend on their types alone."""
    missing = [name for name in input_shapes if name not in {param.name for param in mod["main"].params}]
    if missing:
        raise InputError(f"input_shapes names {', '.join(missing)}, which the graph does not take")
    generator = np.random.default_rng(0)
    found = {}
    for param in infer_type(mod)["main"].params:
        kind = param.checked_type
        if param.name in input_shapes:
            continue
        if not isinstance(kind, TensorType):
            raise InputError(f"the parameter {param.name} of the graph is no tensor of known type")
        shape = tuple(int(extent) for extent in kind.shape)
        found[param.name] = generator.random(shape, np.float32).astype(DType(kind.dtype).numpy)
    return found


def _pair(entry: Entry, target: str) -> Pair:
    """An entry as lines of logs have it."""
    workload = json.loads(entry.task.workload)
    task = RecordedTask(entry.task.template, [workload], {"version": entry.task.version}, target)
    entities = {name: OtherOptionEntity(value) for name, value in (entry.config or {}).items()}
    result = MeasureResult((entry.seconds or 0.0,), MeasureErrorNo.NO_ERROR, 0.0, entry.time or time.time())
    return MeasureInput(target, task, ConfigEntity(-1, None, entities)), result
