"""Declared tensor intrinsics: a small tensor computation and the statements that carry it out on this target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.te.operation import ComputeOp, Operation
from tilewright.te.tensor import Tensor
from tilewright.tir.buffer import Buffer
from tilewright.tir.stmt import Stmt


@dataclass(frozen=True, eq=False)
class TensorIntrin:
    """An intrinsic that computes `op` on `inputs` (in the order of `op.input_tensors`) into `outputs`.

    `body` computes it whole; for a reduction `reset` starts the outputs and `update` combines one more piece into them.
    """

    name: str
    op: ComputeOp
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    body: Stmt | None
    reset: Stmt | None
    update: Stmt | None

    def __repr__(self) -> str:
        return f"tensor intrinsic {self.name}"


def decl_buffer(
    shape: Sequence[Any],
    dtype: str = "float32",
    name: str = "buffer",
    scope: str = "global",
    strides: Sequence[Any] | None = None,
) -> Buffer:
    """A buffer to bind a tensor of an intrinsic to; variables among `strides` take the strides found at its use."""
    return Buffer(name, shape, dtype, scope, strides)


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[[list[Buffer], list[Buffer]], Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None,
) -> TensorIntrin:
    """An intrinsic for the computation `op`, of constant shape.

    `fcompute(inputs, outputs)` gets one buffer per tensor (from `binds`, else compact ones) and returns the statement
    that computes `op` whole, or for a reduction a tuple (body, reset, update) in which each may be None.
    Raises ScheduleError where the declaration does not fit.
    """
    if not isinstance(op, ComputeOp):
        raise ScheduleError(f"decl_tensor_intrin {name}: needs the operation of a te.compute; got {op!r}")
    given = dict(binds or {})

    def buffer(tensor: Tensor) -> Buffer:
        return given.get(tensor) or Buffer(tensor.name, tensor.shape, tensor.dtype)

    inputs, outputs = [buffer(t) for t in op.input_tensors], [buffer(t) for t in op.outputs]
    made = fcompute(inputs, outputs)
    parts = tuple(made) if isinstance(made, (tuple, list)) else (made, None, None)
    if len(parts) != 3 or any(p is not None and not isinstance(p, Stmt) for p in parts):
        raise ScheduleError(
            f"tensor intrinsic {name}: fcompute returns a statement or (body, reset, update); got {made!r}"
        )
    return TensorIntrin(name, op, tuple(inputs), tuple(outputs), *parts)
