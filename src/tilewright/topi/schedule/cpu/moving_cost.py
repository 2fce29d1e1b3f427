"""What a kernel costs that has no model of its own: its inputs are read and its outputs written once."""

from __future__ import annotations

import math

from tilewright import te
from tilewright.support.dtype import DType
from tilewright.target import Target
from tilewright.topi.schedule.cost import Cost, Traffic
from tilewright.topi.schedule.cpu.common import computes, shape_of
from tilewright.topi.schedule.cpu.conv2d_cost import start


def moving_cost(outs: list[te.Tensor], target: Target) -> Cost:
    """Elementwise, reducing and data-moving kernels: traffic, and a load, an operation and a store for each vector."""
    machine = target.machine
    sources = {t for stage in computes(outs) for t in stage.op.input_tensors if isinstance(t.op, te.PlaceholderOp)}
    read, written = (sum(map(_bytes, tensors)) for tensors in (sources, outs))
    workers = machine.cores if max(read, written) / 4 >= target.machine.parallel_elements else 1
    traffic = Traffic(machine, workers)
    traffic.add((read + machine.write_factor * written) / workers, read + written)
    vector = machine.lanes(8) * workers
    ports = read / vector / machine.vector_loads + written / vector / machine.stores
    return traffic.cost(max(read, written) / vector, ports, start(workers, machine))


def _bytes(tensor: te.Tensor) -> int:
    return math.prod(shape_of(tensor)) * DType(tensor.dtype).itemsize
