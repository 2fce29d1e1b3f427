"""The cost of a kernel without a model of its own: the part of its inputs that it needs is read, its outputs written,
once.
"""

from __future__ import annotations

import math

from tilewright import te
from tilewright.backend.cpu.schedule.conv2d_cost import start
from tilewright.support.dtype import DType
from tilewright.target import Target
from tilewright.topi.schedule.cost import Cost, Traffic
from tilewright.topi.schedule.stages import computes, extent_of, shape_of


def moving_cost(outs: list[te.Tensor], target: Target) -> Cost:
    """Elementwise, reducing and data-moving kernels: traffic, and a load, an operation and a store for each vector."""
    machine = target.machine
    read, written = _bytes_read(outs), sum(map(_bytes, outs))
    workers = machine.cores if max(read, written) / 4 >= target.machine.parallel_elements else 1
    traffic = Traffic(machine, workers)
    traffic.add((read + machine.write_factor * written) / workers, read + written)
    vector = machine.lanes(8) * workers
    ports = read / vector / machine.vector_loads + written / vector / machine.stores
    return traffic.cost(max(read, written) / vector, ports, start(workers, machine))


def _bytes_read(outs: list[te.Tensor]) -> int:
    """Bytes of the inputs that are read: of each at most all, and an element for each point of the loops that read it.

    The latter is less where rows of a table are gathered, or a part is cut out.
    """
    points: dict[te.Tensor, int] = {}
    for stage in computes(outs):
        extents = [extent_of(axis) for axis in getattr(stage.op, "reduce_axis", ())]
        for source in stage.op.input_tensors:
            if isinstance(source.op, te.PlaceholderOp):
                points[source] = points.get(source, 0) + math.prod((*shape_of(stage), *extents))
    return sum(min(_bytes(source), many * DType(source.dtype).itemsize) for source, many in points.items())


def _bytes(tensor: te.Tensor) -> int:
    return math.prod(shape_of(tensor)) * DType(tensor.dtype).itemsize
