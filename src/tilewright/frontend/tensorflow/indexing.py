"""Gathering, scattering and one-hot codes."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.builders.elements import batched_take, gather_nd, scatter_nd
from tilewright.frontend.idioms import cast, constant, full, reshape, shape_of
from tilewright.frontend.tensorflow.control import resolved
from tilewright.frontend.tensorflow.node import TfNode, converts
from tilewright.frontend.tensorflow.values import Dims, dims_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


@converts("Gather", "GatherV2", "ResourceGather")
def convert_gather(node: TfNode) -> Any:
    value = node.values[0]
    if isinstance(value, Dims):
        found = dims_of(node.values[1])
        if found is not None and all(isinstance(one, int) for one in found):
            scalar = isinstance(node.values[1], Constant) and node.values[1].data.ndim == 0
            return Dims([value.extents[one] for one in found], value.dtype, scalar)
    data = resolved(node, 0)
    rank = len(shape_of(data))
    axis = node.axis(node.ints(2, "axis")[0], rank) if node.operator == "GatherV2" else 0
    batch = node.attr("batch_dims", 0)
    if not batch:
        return op.take(data, node[1], axis=axis)
    return batched_take(data, node[1], axis, batch + node.rank(1) if batch < 0 else batch)


@converts("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMax", "TensorScatterMin")
def convert_tensor_scatter(node: TfNode) -> Expr:
    mode = node.operator.removeprefix("TensorScatter").lower()
    if mode == "sub":
        return scatter_nd(node[0], node[1], -node[2], "add")
    return scatter_nd(node[0], node[1], node[2], mode)


@converts("OneHot")
def convert_one_hot(node: TfNode) -> Expr:
    axis = node.attr("axis", -1)
    return op.one_hot(node[0], node[2], node[3], depth=node.ints(1, "depth")[0], axis=axis, dtype=node.dtype(2))


@converts("DynamicStitch", "ParallelDynamicStitch")
def convert_stitch(node: TfNode) -> Expr:
    count = len(node.values) // 2
    positions = [node.static(index, "positions") for index in range(count)]
    total = max((int(one.max(initial=-1)) for one in positions), default=-1) + 1
    own = node.shape(count)[positions[0].ndim :]
    made: Expr = full(0, (total, *own), node.dtype(count))
    for index, one in enumerate(positions):
        rows = reshape(node[count + index], (one.size, *own))
        made = op.scatter_nd(made, constant(one.reshape(1, -1), "int32"), rows, mode="update")
    return made


converts.functions({
    **dict.fromkeys(("GatherNd", "ResourceGatherNd"), lambda node: gather_nd(resolved(node, 0), node[1])),
    "ScatterNd": lambda node: scatter_nd(full(0, node.dims(2), node.dtype(1)), node[0], node[1], "add"),
    "Where": lambda node: cast(
        op.argwhere(node[0] if node.dtype() == "bool" else op.not_equal(node[0], 0)), "int64"
    ),
})  # fmt: skip
