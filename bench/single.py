"""Measuring a model of one node: our time whole and of its kernels, beside other engines and what the machine can do.

A model of one convolution in NCHW transforms its data into the layout of the kernel and back, which inside a network
happens once or not at all. So two times are reported: of the whole model, which is what the other engines are compared
with, and of the one kernel that does the arithmetic, from `Executable.profile`.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from report import OURS, cell, geometric_mean, ratio_to_peers, table

import tilewright as tw
from tilewright.cli.inputs import random_inputs
from tilewright.cli.peak import fma_peak, memory_sizes, read_bandwidth
from tilewright.cli.timing import measure
from tilewright.frontend.onnx.reference.engines import open_engine
from tilewright.target import Target


@dataclass(frozen=True)
class Machine:
    """The figures of one number of threads: GFLOP/s, and GB/s of reading from each level of memory."""

    threads: int
    peak: float
    bandwidth: dict[str, float]

    @staticmethod
    def measured(threads: int, seconds: float = 0.5, peak: Callable[[int, float], float] = fma_peak) -> Machine:
        """Measure each figure for `seconds`; well below half a second they do not repeat on a busy machine."""
        levels = {level: read_bandwidth(size, threads, seconds) for level, size in memory_sizes().items()}
        return Machine(threads, peak(threads, seconds), levels)

    def bandwidth_of(self, nbytes: int) -> float:
        """GB/s of reading `nbytes` that are used again and again: of the innermost level that holds them all."""
        target = Target.host()
        level = "L2" if nbytes <= target.l2 * self.threads else "L3" if nbytes <= target.l3 else "DRAM"
        return self.bandwidth[level]


@dataclass(frozen=True)
class Result:
    """One model on one number of threads; times are milliseconds, the shares are of our time of the kernel alone."""

    name: str
    threads: int
    flops: int
    nbytes: int
    minimum_ms: dict[str, float]
    median_ms: dict[str, float]
    kernel: str
    kernel_ms: float
    peak_share: float
    bandwidth_share: float

    def gflops(self, milliseconds: float) -> float:
        """GFLOP/s of this model's operations in a time."""
        return self.flops / milliseconds / 1e6

    @property
    def kernel_ratio(self) -> float | None:
        """The faster peer's time of the whole model over our time of the kernel alone."""
        return ratio_to_peers(self.minimum_ms | {OURS: self.kernel_ms})


def one_node_model(
    node: onnx.NodeProto,
    data: Sequence[int],
    result: Sequence[int],
    weights: Mapping[str, np.ndarray],
    types: tuple[int, int] = (TensorProto.FLOAT, TensorProto.FLOAT),
) -> onnx.ModelProto:
    """A model of `node`, from the input "x" of shape `data` to the output "y" of shape `result`, of those `types`."""
    graph = helper.make_graph(
        [node],
        "single",
        [helper.make_tensor_value_info("x", types[0], data)],
        [helper.make_tensor_value_info("y", types[1], result)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def measure_single(
    name: str,
    model: onnx.ModelProto,
    machine: Machine,
    engines: Sequence[str],
    seconds: float,
    rounds: int,
    others: Mapping[str, Callable[[np.ndarray], Any]] | None = None,
) -> Result:
    """Compile `model` and time it beside `engines`; then `others`, functions of the one input by name, by themselves.

    A BLAS's threads hold their cores for long after a call, so it may not take part in the turns of the engines.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        onnx.save(model, path)
        executable = tw.compile(path, threads=machine.threads, cache=False)
        inputs = random_inputs(executable.inputs, 0)
        (data,) = inputs.values()
        runs: dict[str, Callable[[], Any]] = {OURS: lambda: executable.run(inputs)}
        runs |= {engine: open_engine(engine, path, inputs, machine.threads).run for engine in engines}
        times = measure(runs, seconds, rounds).times
        for label, run in (others or {}).items():
            times |= measure({label: lambda run=run: run(data)}, seconds / len(runs), rounds).times
    kernel = max(executable.profile(inputs, repeat=max(10, min(200, rounds))), key=lambda row: row.flops)
    return Result(
        name,
        machine.threads,
        kernel.flops,
        kernel.nbytes,
        {engine: min(t) * 1e3 for engine, t in times.items()},
        {engine: statistics.median(t) * 1e3 for engine, t in times.items()},
        kernel.kernel,
        kernel.seconds * 1e3,
        kernel.flops / kernel.seconds / 1e9 / machine.peak,
        kernel.nbytes / kernel.seconds / 1e9 / machine.bandwidth_of(kernel.nbytes),
    )


def to_json(machine: Machine, results: Sequence[Result]) -> dict[str, Any]:
    """Plain data: the machine's figures and every result."""
    return {"machine": asdict(machine), "results": [asdict(result) for result in results]}


def markdown(machine: Machine, results: Sequence[Result]) -> str:
    """The table of one number of threads, and the geometric means of the ratios."""
    engines = list(dict.fromkeys(engine for result in results for engine in result.minimum_ms))
    heading = ["", *(f"{engine} ms" for engine in engines), "kernel ms", "GFLOP/s", "of peak", "of bandwidth"]
    rows = [
        [
            result.name,
            *(cell(result.minimum_ms.get(engine), 3) for engine in engines),
            cell(result.kernel_ms, 3),
            cell(result.gflops(result.kernel_ms), 1),
            f"{result.peak_share:.0%}",
            f"{result.bandwidth_share:.0%}",
            cell(ratio_to_peers(result.minimum_ms)),
            cell(result.kernel_ratio),
        ]
        for result in results
    ]
    levels = ", ".join(f"{level} {value:.0f}" for level, value in machine.bandwidth.items())
    lines = [
        f"{machine.threads} thread{'s' if machine.threads > 1 else ''}; peak {machine.peak:.1f} GFLOP/s; "
        f"reading, GB/s: {levels}.",
        "",
        table([*heading, "ratio", "kernel ratio"], rows),
    ]
    whole = [r for r in (ratio_to_peers(result.minimum_ms) for result in results) if r is not None]
    alone = [r for r in (result.kernel_ratio for result in results) if r is not None]
    if whole:
        lines.append(
            f"Geometric mean of the ratios: {geometric_mean(whole):.2f} (lowest {min(whole):.2f}); "
            f"of the kernels alone: {geometric_mean(alone):.2f} (lowest {min(alone):.2f}).\n"
        )
    return "\n".join(lines)
