"""Tensors of no tensor: constants, ranges, shapes filled with one number."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.idioms import as_vector, broadcast_to, cast, constant, like, on_axis, one_hot, rank_of
from tilewright.frontend.signature import Typed
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.types import is_static
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_VALUES = {
    "zeros": 0, "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1, "new_ones": 1,
    "empty": 0, "empty_like": 0, "new_empty": 0, "empty_strided": 0, "new_empty_strided": 0, "empty_permuted": 0,
    "zero": 0, "_efficientzerotensor": 0,
}  # fmt: skip


@converts(*(f"aten.{name}" for name in _VALUES))
def convert_filled(node: TorchNode) -> Expr:
    """Zeros or ones; what PyTorch leaves unset is zero."""
    return node.spread(constant(_VALUES[node.target.split(".")[1]], node.dtype))


@converts("aten.full", "aten.full_like", "aten.new_full", "aten.fill", "aten.scalar_tensor")
def convert_full(node: TorchNode) -> Expr:
    name = next(name for name in ("fill_value", "value", "s") if name in node.arguments)
    return node.spread(node.tensor(name))


@converts("aten.arange", "aten.range")
def convert_arange(node: TorchNode, start: Any = 0, step: Any = 1) -> Expr:
    """Numbers from `start` in steps."""
    (count,) = node.shape
    if isinstance(count, int) and isinstance(start, int | float) and isinstance(step, int | float):
        return constant(start + np.arange(count) * step, node.dtype)
    ones = node.spread(constant(1, node.dtype))
    return (op.cumsum(ones, axis=0) - 1) * node.as_tensor(step) + node.as_tensor(start)


@converts("aten._assert_tensor_metadata", "aten._assert_async", "aten._assert_scalar", "aten.sym_constrain_range",
          "aten.sym_constrain_range_for_size", "aten._linalg_check_errors", "aten._functional_assert_async",
          "aten._functional_assert_scalar", "aten._functional_sym_constrain_range",
          "aten._functional_sym_constrain_range_for_size")  # fmt: skip
def convert_assertion(node: TorchNode) -> None:
    """Nothing: export's assertions on types and sizes are in the types of the result."""


@converts("aten.linspace", "aten.logspace")
def convert_linspace(node: TorchNode) -> Expr:
    """`steps` numbers from start to end, or the powers of a base by them."""
    start, end, (count,) = node["start"], node["end"], node.shape
    if not isinstance(count, int):
        node.unsupported("a range of symbolic length")
    if isinstance(start, Expr) or isinstance(end, Expr):
        return _between(node, count)
    values = np.linspace(float(start), float(end), count)
    if node.dtype.is_int and "linspace" in node.target:
        values = np.trunc(values)
    return constant(values if "linspace" in node.target else np.power(float(node["base"]), values), node.dtype)


def _between(node: TorchNode, count: int) -> Expr:
    """A range between scalars that a run computes."""
    start, end = node.tensor("start", "float64"), node.tensor("end", "float64")
    part = constant(np.arange(count) / max(count - 1, 1), "float64")
    values = start + (end - start) * part
    if "logspace" in node.target:
        values = op.power(like(node["base"], values), values)
    elif node.dtype.is_int:
        values = op.trunc(values)
    return cast(values, node.dtype)


@converts("aten.eye")
def convert_eye(node: TorchNode) -> Expr:
    if is_static(node.shape):
        return constant(np.eye(*node.shape), node.dtype)
    rows, columns = (node.steps(axis) for axis in range(2))
    return cast(op.equal(op.expand_dims(rows, axis=1), op.expand_dims(columns, axis=0)), node.dtype)


@converts("aten.fft_fftfreq", "aten.fft_rfftfreq")
def convert_frequencies(node: TorchNode, n: Any, d: float) -> Expr:
    """The frequencies of the bins of a transform of `n` numbers that lie `d` apart."""
    half = "rfft" in node.target
    if isinstance(n, int):
        return constant((np.fft.rfftfreq if half else np.fft.fftfreq)(n, d), node.dtype)
    positions, total = node.steps(0), node.as_tensor(n, "int64")
    if not half:
        last = op.right_shift(total - 1, 1)
        positions = op.where(positions > last, positions - total, positions)
    scaled = cast(positions, "float64") / (cast(total, "float64") * constant(d, "float64"))
    return cast(scaled, node.dtype)


@converts("aten.tril_indices", "aten.triu_indices")
def convert_triangle_indices(node: TorchNode) -> Expr:
    found = (np.tril if "tril" in node.target else np.triu)(np.ones((node["row"], node["col"])), node["offset"])
    return constant(np.stack(np.nonzero(found)), node.dtype)


@converts("aten.one_hot")
def convert_one_hot(node: TorchNode, data: Expr, num_classes: Any) -> Expr:
    if not isinstance(num_classes, int) or num_classes < 0:
        node.unsupported("as many classes as the values say")
    return one_hot(data, num_classes, node.dtype)


@converts("aten.meshgrid")
def convert_meshgrid(node: TorchNode, tensors: Any, indexing: Any = None) -> list[Expr]:
    positions = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        positions[:2] = [1, 0]
    wide = [on_axis(as_vector(value), position, len(tensors)) for value, position in zip(tensors, positions)]
    return [broadcast_to(value, node.shape) for value in wide]


@converts("aten.vander", "aten.linalg_vander")
def convert_vander(node: TorchNode, data: Typed) -> Expr:
    count = node.shape[-1]
    powers = np.arange(count)
    if node.target.startswith("aten.vander") and not node["increasing"]:
        powers = powers[::-1]
    made = op.power(op.expand_dims(data, axis=rank_of(data)), constant(powers, node.dtype))
    return broadcast_to(made, node.shape)
